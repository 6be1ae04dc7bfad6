// A message that the replicas of a rank have not sent alike: one of them has other bytes, another length, or
// has not sent the message at all. A plain value, and the text that describes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/replica/records.hpp"
#include "lib/replica/replication.hpp"

namespace rdmc::replica {

/// The contexts of a communicator have the numbers 2 n and 2 n + 1. The second one is for the messages of
/// collective operations. The world is communicator 0, and the rank alone is communicator 1. Further
/// communicators have increasing numbers, which are the same in each run.
constexpr std::uint32_t communicator_of(ContextId context) {
  return static_cast<std::uint32_t>(context) / 2;
}
constexpr bool is_collective(ContextId context) {
  return static_cast<std::uint32_t>(context) % 2 == 1;
}

/// A message that a replica has sent. The digest is 0 if digests are not compared.
struct SentMessage {
  std::uint64_t bytes = 0, digest = 0;
  friend bool operator==(const SentMessage&, const SentMessage&) = default;
};

struct SendDifference {
  Rank source{};
  ChannelKey channel;          ///< its rank is the destination
  std::uint32_t sequence = 0;  ///< the number of the message in its channel, from 0
  struct Version {
    std::uint32_t replica = 0;
    std::optional<SentMessage> sent{};  ///< nullopt if the replica has not sent the message
    friend bool operator==(const Version&, const Version&) = default;
  };
  /// One for each replica of `source` that lives, in the order of their numbers.
  std::vector<Version> versions;

  /// The replicas whose version is not the one of the majority. Empty if there is no majority.
  ReplicaSet minority() const;
  /// True if all versions have the same length, so that only the content differs.
  bool is_in_content() const;

  friend bool operator==(const SendDifference&, const SendDifference&) = default;
};

/// Returns a sentence for people, which names the message and the replicas.
std::string describe(const SendDifference& difference);
/// Names the channel: "to rank 2 with tag 5 in communicator 0".
std::string describe(const ChannelKey& channel);

}  // namespace rdmc::replica

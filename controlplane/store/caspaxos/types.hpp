// The values of a CASPaxos register (Rystsov, "CASPaxos: Replicated State Machines without logs", 2018): who
// keeps it, in which order proposals stand, and what an acceptor has accepted. Plain values; any thread.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rdmc::store {

using Bytes = std::vector<std::byte>;

/// A store has one node or three.
inline constexpr std::size_t kMostNodes = 3;
inline constexpr std::size_t kMaxRegisterNameBytes = 255;
inline constexpr std::size_t kMaxValueBytes = 1 << 20;
/// Of a configuration. Nobody uses the numbers up.
inline constexpr std::uint64_t kMaxEpoch = std::uint64_t{1} << 60;

/// 128 random bits from the operating system. An acceptor draws its id when it makes its durable state, so
/// the id stands for that state: whoever has lost the state has lost the id. A proposer draws its id whenever
/// it starts, so two lives of one process never use the same ballot. Zero stands for nobody.
struct Id {
  std::uint64_t high = 0, low = 0;
  explicit operator bool() const { return high != 0 || low != 0; }
  friend auto operator<=>(const Id&, const Id&) = default;
};

/// Orders proposals. Ballots of a later configuration are higher than all ballots of an earlier one. The
/// ballot of epoch 0 stands for "nothing was accepted".
struct Ballot {
  std::uint64_t epoch = 0;  ///< of the configuration in which the proposal was made
  std::uint64_t counter = 0;
  Id proposer;
  friend auto operator<=>(const Ballot&, const Ballot&) = default;
};

/// What an acceptor has accepted for one register.
struct Accepted {
  Ballot ballot;
  Bytes value;
  bool empty() const { return ballot.epoch == 0; }
  friend bool operator==(const Accepted&, const Accepted&) = default;
};
using Registers = std::map<std::string, Accepted>;

/// The acceptors of one epoch. There is exactly one configuration of each epoch. Epoch 0 stands for none.
struct Configuration {
  std::uint64_t epoch = 0;
  std::vector<Id> acceptors;  ///< by the number of the node; zero where a place is vacant
  /// Where the state comes from: a majority of these acceptors, as they were sealed in that epoch. Nobody:
  /// the store is new.
  std::uint64_t from_epoch = 0;
  std::vector<Id> from;  ///< by the number of the node, as `acceptors`

  static std::size_t count_of(const std::vector<Id>& ids) {
    return static_cast<std::size_t>(std::ranges::count_if(ids, [](const Id& id) { return bool(id); }));
  }
  static std::size_t majority_of(const std::vector<Id>& ids) { return count_of(ids) / 2 + 1; }
  static bool is_among(const std::vector<Id>& ids, const Id& id) {
    return id && std::ranges::find(ids, id) != ids.end();
  }
  /// How many acceptors there are: vacant places do not count.
  std::size_t size() const { return count_of(acceptors); }
  std::size_t majority() const { return majority_of(acceptors); }
  bool contains(const Id& id) const { return is_among(acceptors, id); }
  friend bool operator==(const Configuration&, const Configuration&) = default;
};

/// The name of the register that holds the next configuration, in each epoch. No group can have it.
inline const std::string kConfigurationRegister;

/// All that an acceptor must not forget.
struct Durable {
  Id id;                 ///< zero: nothing was ever kept
  Configuration active;  ///< the acceptor answers in this epoch …
  Configuration next;    ///< … unless it knows that this one has taken its place
  Configuration vote;    ///< for a first configuration
  /// The acceptor may have promised any ballot with a counter up to this one. Promises themselves are not
  /// kept: an acceptor that restarts takes all of them for promised.
  std::uint64_t ceiling = 0;
  Registers registers;
  friend bool operator==(const Durable&, const Durable&) = default;
};

}  // namespace rdmc::store

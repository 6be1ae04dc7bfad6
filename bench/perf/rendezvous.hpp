// Where the member processes of one rdmc_perf run meet: a page of shared memory, made before they are forked.
// It carries connection blobs, barriers and times, so that the measured path has no control plane in it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "dataplane/base/types.hpp"
#include "dataplane/fabric/queue_pair.hpp"

namespace rdmc::perf {

inline constexpr std::uint32_t kMostMembers = 64;
inline constexpr std::uint32_t kMostIterations = 10'000;

struct MemberFigures {
  std::array<char, 32> driver{};       ///< of its port, zero-terminated
  double cpu_seconds = 0;              ///< user + system over the timed part
  std::uint64_t bytes_copied = 0;      ///< by the fabric or the group …
  double carrier_copies_per_byte = 0;  ///< … beside what carries the packets
  std::uint64_t first_blocks_exchanged = 0, first_blocks_copied = 0;
  std::uint32_t path_mtu = 0;
  bool icrc = true, encrypted = false;
  std::uint64_t packets_repaired = 0, packets_in_place = 0, retransmitted = 0, timeouts = 0;
  std::uint64_t receive_dropped = 0, system_calls = 0;  ///< of the port
};

class Rendezvous {
 public:
  /// In shared memory; nullptr if there is none. Never freed: it lives as long as the program.
  static Rendezvous* make(std::uint32_t members);

  /// Gives `blob` to member `to` and takes what it gives to us; blocks (there is nothing to poll for yet).
  void give(std::uint32_t from, std::uint32_t to, const fabric::ConnectionBlob& blob);
  fabric::ConnectionBlob take(std::uint32_t from, std::uint32_t to);

  /// Returns when every member has called it as often as this one has. `meanwhile` is called over and over: a
  /// member that waits must still answer its peers. Returns false if a member failed.
  bool barrier(const std::function<void()>& meanwhile);

  /// Ends the run: every barrier returns false.
  void fail(std::uint32_t member, const std::string& what);
  bool failed() const { return failed_.load(); }
  std::string failure() const { return failure_; }

  struct Digest {
    std::atomic<std::uint64_t> low, high;
  };

  std::array<std::atomic<std::int64_t>, kMostIterations> started_ns;   ///< of the root that started first
  std::array<std::atomic<std::int64_t>, kMostIterations> finished_ns;  ///< of the member that finished last
  std::array<Digest, kMostMembers> digests;  ///< of each sender's message in this iteration
  std::atomic<std::uint32_t> receiver_key;   ///< unicast: the remote key of the receiving memory
  std::array<MemberFigures, kMostMembers> figures;

 private:
  struct Slot {
    std::atomic<std::uint32_t> bytes;
    std::array<std::byte, 252> blob;
  };
  std::uint32_t members_;
  std::atomic<std::uint64_t> arrived_;
  std::atomic<bool> failed_;
  char failure_[256];
  std::array<std::array<Slot, kMostMembers>, kMostMembers> slots_;
};

}  // namespace rdmc::perf

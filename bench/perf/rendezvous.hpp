// The shared memory of the member processes of one rdmc_perf run, made before they are forked. The processes
// exchange connection blobs, barriers and times in it. So the measured path has no control plane.
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
  std::array<char, 32> driver{};   ///< The name of the driver of the member's port, zero-terminated.
  double cpu_seconds = 0;          ///< The user and system time of the timed part.
  std::uint64_t bytes_copied = 0;  ///< The number of bytes that the fabric or the group has copied.
  /// The number of copies of each byte by the carrier of the packets, in addition to bytes_copied.
  double carrier_copies_per_byte = 0;
  std::uint64_t first_blocks_in_place = 0, first_blocks_copied = 0;
  std::uint32_t path_mtu = 0;
  bool icrc = true, encrypted = false;
  std::uint64_t packets_repaired = 0, packets_in_place = 0, retransmitted = 0, timeouts = 0;
  std::uint64_t receive_dropped = 0, system_calls = 0;  ///< The counters of the port.
};

class Rendezvous {
 public:
  /// Makes the object in shared memory. Returns nullptr if there is no memory. The object is never freed, and
  /// lives as long as the program.
  static Rendezvous* make(std::uint32_t members);

  /// give() gives a connection blob to member `to`. take() takes the blob of member `from`. Both functions
  /// block, because there is nothing to poll yet.
  void give(std::uint32_t from, std::uint32_t to, const fabric::ConnectionBlob& blob);
  fabric::ConnectionBlob take(std::uint32_t from, std::uint32_t to);

  /// Returns when every member has called this function as often as this member. Calls `meanwhile`
  /// repeatedly, because a waiting member must still answer its peers. Returns false if a member has failed.
  bool barrier(const std::function<void()>& meanwhile);

  /// Ends the run. Every barrier then returns false.
  void fail(std::uint32_t member, const std::string& what);
  bool failed() const { return failed_.load(); }
  std::string failure() const { return failure_; }

  struct Digest {
    std::atomic<std::uint64_t> low, high;
  };

  /// For each iteration, the start time of the root that started first.
  std::array<std::atomic<std::int64_t>, kMostIterations> started_ns;
  /// For each iteration, the finish time of the member that finished last.
  std::array<std::atomic<std::int64_t>, kMostIterations> finished_ns;
  std::array<Digest, kMostMembers> digests;  ///< The digests of each sender's message in this iteration.
  /// For the test unicast: the remote key of the receiving memory.
  std::atomic<std::uint32_t> receiver_key;
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

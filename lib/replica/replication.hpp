// The replication protocols: which replica sends a message to which replica, who acknowledges it to whom, and
// who takes over when a replica dies. A rank of degree r has the replicas 0 to r - 1. All replicas of a rank
// run the same program, and each of them must receive each message of the rank once.
//
// Each protocol is a pure function of the living replicas. All processes of a run learn of deaths in the same
// order (RunLink), so they come to the same answers without talking to each other. For a short time, one
// process may know of a death and another one may not. Sequence numbers make this harmless: a message that
// comes twice is dropped (channels.hpp).
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "dataplane/base/error.hpp"
#include "lib/replica/layout.hpp"

namespace rdmc::replica {

/// A set of replicas of one rank: bit i stands for replica i.
using ReplicaSet = std::uint64_t;
/// The largest degree of a rank, because of ReplicaSet.
inline constexpr std::uint32_t kMostDegree = 64;

constexpr ReplicaSet set_of(std::uint32_t replica) {
  return ReplicaSet{1} << replica;
}
/// Calls `function` with each replica of the set, in increasing order.
template <typename Function>
void for_each_replica(ReplicaSet set, Function function) {
  for (; set != 0; set &= set - 1) function(static_cast<std::uint32_t>(std::countr_zero(set)));
}

/// The parts that the replicas of one rank play when a process sends a message to this rank.
struct Roles {
  /// The process sends its messages to these replicas.
  ReplicaSet receivers = 0;
  /// Other replicas of the process's rank send the same messages to these replicas. The process keeps each
  /// message until these replicas have acknowledged it.
  ReplicaSet acknowledging = 0;
};

class ReplicationProtocol {
 public:
  virtual ~ReplicationProtocol() = default;
  ReplicationProtocol& operator=(const ReplicationProtocol&) = delete;

  const Layout& layout() const { return layout_; }
  const ReplicaId& self() const { return self_; }
  const ReplicaId& replica(ProcessId process) const { return replicas_[static_cast<std::uint32_t>(process)]; }
  ProcessId process(Rank rank, std::uint32_t replica) const {
    return layout_.process({.rank = rank, .replica = replica});
  }
  ReplicaSet living(Rank rank) const { return living_[value_of(rank)]; }
  const Roles& toward(Rank to) const { return roles_[value_of(to)]; }
  /// The replicas of `source` to which this process acknowledges a message that the replica `from` of
  /// `source` has sent to it.
  virtual ReplicaSet acknowledged(Rank source, std::uint32_t from) const = 0;

  /// Marks a replica as dead. After that, toward() and acknowledged() have new answers.
  void on_died(const ReplicaId& dead);
  /// Marks a replica as living again, because a new process takes its place. It then has the same part as
  /// before its death.
  void on_replaced(const ReplicaId& replaced);
  /// This process is the new process that takes the place of `self`.
  void become(const ReplicaId& self);
  virtual std::unique_ptr<ReplicationProtocol> copy() const = 0;

 protected:
  ReplicationProtocol(const Layout& layout, const ReplicaId& self);
  ReplicationProtocol(const ReplicationProtocol&) = default;
  virtual Roles roles(Rank to) const = 0;

 private:
  friend Result<std::unique_ptr<ReplicationProtocol>> make_protocol(std::string_view, const Layout&,
                                                                    const ReplicaId&);
  void update();

  const Layout layout_;
  ReplicaId self_;
  std::vector<ReplicaId> replicas_;  ///< by ProcessId
  std::vector<ReplicaSet> living_;   ///< by rank
  std::vector<Roles> roles_;         ///< by rank
};

/// Makes a protocol by its name:
/// - "sdr": replica k of a rank sends to replica k of another rank, and the receiver acknowledges to the
/// other
///   replicas of the sender (SDR-MPI, Algorithm 1).
/// - "mirror": each replica sends to each replica (rMPI, MR-MPI). There are no acknowledgements.
/// Errors: unsupported if there is no such protocol, or if a degree is above kMostDegree.
Result<std::unique_ptr<ReplicationProtocol>> make_protocol(std::string_view name, const Layout& layout,
                                                           const ReplicaId& self);

}  // namespace rdmc::replica

// The numbers of the processes of a run, and how ranks and replicas map to them. Each rank has a degree,
// which is the number of its replicas. The types are plain values, and any thread may use them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::replica {

/// The number of a process of a run, from 0. The replicas of rank 0 come first, then those of rank 1, and so
/// on. A process that replaces a dead one has the same number.
enum class ProcessId : std::uint32_t {};

/// One replica of one rank. Both numbers begin at 0.
struct ReplicaId {
  Rank rank{};
  std::uint32_t replica = 0;

  friend auto operator<=>(const ReplicaId&, const ReplicaId&) = default;
};

/// Returns "RANK.REPLICA", which is how people read and write the name of a replica.
std::string to_string(const ReplicaId& id);

class Layout {
 public:
  /// The largest number of processes of one run. So a message that lists all of them stays below the limits
  /// of the control connections.
  static constexpr std::uint32_t kMostProcesses = 16384;

  /// The layout of a program that rdmc_run has not started: one rank with one replica.
  Layout() : Layout(std::vector<std::uint32_t>{1}) {}

  /// Makes a layout from the degree of each rank. Errors: invalid_argument if there is no rank, if a degree
  /// is 0, or if there are more than kMostProcesses processes.
  static Result<Layout> of(std::vector<std::uint32_t> degrees);
  /// Makes a layout of `ranks` ranks with the same degree. Errors: those of of().
  static Result<Layout> uniform(std::uint32_t ranks, std::uint32_t degree);
  /// Parses what text() returns. Errors: invalid_argument.
  static Result<Layout> parse(std::string_view text);
  /// Returns the degrees as text: "2x4,1,3" means four ranks of degree 2, then one of degree 1 and one of 3.
  std::string text() const;

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(first_.size() - 1); }
  std::uint32_t processes() const { return first_.back(); }
  /// The number of replicas of `rank`. Precondition: value_of(rank) < ranks().
  std::uint32_t degree(Rank rank) const { return first_[value_of(rank) + 1] - first_[value_of(rank)]; }
  std::uint32_t most_degree() const;
  bool contains(const ReplicaId& id) const {
    return value_of(id.rank) < ranks() && id.replica < degree(id.rank);
  }
  /// Precondition: contains(id).
  ProcessId process(const ReplicaId& id) const { return ProcessId{first_[value_of(id.rank)] + id.replica}; }
  /// Precondition: value_of(process) < processes().
  ReplicaId replica(ProcessId process) const;
  Rank rank(ProcessId process) const { return replica(process).rank; }

  friend bool operator==(const Layout&, const Layout&) = default;

 private:
  explicit Layout(const std::vector<std::uint32_t>& degrees);
  /// For each rank, the number of its first process. The last element is the number of all processes.
  std::vector<std::uint32_t> first_;
};

}  // namespace rdmc::replica

// The links of a process that have failed, though rdmc_run has not said that the other process is dead. In
// most cases it is dead, and rdmc_run will say so. If it is not, this process cannot go on: it would miss
// messages, while the other replicas of its rank get them. A core without I/O and without a clock. The Links
// own it.
#pragma once

#include <vector>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"
#include "lib/replica/layout.hpp"

namespace rdmc::replica {

class BrokenLinks {
 public:
  /// The longest time that rdmc_run may take to report the death of a process whose link has failed.
  static constexpr Duration kDeathPatience = seconds(30);

  struct Link {
    ProcessId process{};
    Error cause;
    Time since = Time::never();  ///< of the first call of find_fatal() after the failure
  };

  /// Precondition: the link to this process is not here yet.
  void add(ProcessId process, const Error& cause) { links_.push_back({.process = process, .cause = cause}); }
  /// The process is dead. There may be no such link.
  void remove(ProcessId process);
  void clear() { links_.clear(); }
  bool is_empty() const { return links_.empty(); }
  const std::vector<Link>& all() const { return links_; }
  /// Returns a link because of which this process cannot go on, or null if there is none. The cause of such a
  /// link has nothing to do with the life of the other process, or the link has been here for longer than
  /// kDeathPatience. The result is valid until the next call of another function.
  const Link* find_fatal(Time now);

 private:
  std::vector<Link> links_;
};

}  // namespace rdmc::replica

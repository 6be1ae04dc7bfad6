// Chooses the plan of each message of a group whose algorithm or block size is `automatic`. The cost model
// predicts the time of each plan, and it learns from the times of earlier messages. For a plan that has been
// tried, the measured time counts. For any other plan, the prediction counts. The plan with the least time is
// used next. A plan that was not tried yet counts as faster than predicted. So a plan whose prediction is
// only a little slower than the best plan is also tried, once or twice for messages of about the same length.
// Old measurements are ignored, because the network may have changed since then. Pure (no I/O and no clock);
// any thread may use it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "dataplane/relay/cost_model.hpp"
#include "dataplane/relay/path_fit.hpp"

namespace rdmc::relay {

struct AutoConfig {
  Fixed fixed{};  ///< the parts of the plan that the application has set; the other parts are chosen here
  /// True if the members of one rack share a host, so that blocks between them take no link. The host
  /// pipeline and the host trees may then be chosen, too.
  bool racks_are_hosts = false;
  /// The parameters of the paths before any measurement. The guess about the uplinks is ignored.
  PathParameters guess{};
};

/// All algorithms that may be chosen for a group with these racks. The list is never empty.
std::vector<Algorithm> auto_algorithms(const AutoConfig& config, const Racks& racks);

class AutoPlan {
 public:
  /// Preconditions: 1 <= members <= kMaxMembers, and the preconditions of Schedule for the racks. Each rack
  /// is assumed to be behind one link that is as fast as a member's link. The cost of this link is learned
  /// together with all other costs.
  AutoPlan(const AutoConfig& config, std::uint32_t members, const Racks& racks);

  /// The plan of the next message.
  struct Next {
    MessagePlan plan;
    /// True if the time of this plan is only predicted. The caller should send the message alone and measure
    /// its time before other messages use this plan.
    bool is_trial = false;
  };
  Next next(std::uint64_t bytes) const;
  /// Must be called for each message that was sent.
  void sent(std::uint64_t bytes);
  /// Reports the time of a message from its sending to its last delivery. The caller must report only
  /// messages that started while no other message was in flight. Precondition: `seconds` > 0.
  void took(std::uint64_t bytes, const MessagePlan& plan, double seconds);
  /// Reports a message whose time depended on how long an application needed. So the time gives no
  /// information about the paths. If several such reports follow each other without a measured time, no more
  /// plans are tried for a while.
  void took_what_somebody_needed(std::uint64_t bytes);

 private:
  /// The last two times of one plan for messages of about the same length (within a factor of two), in
  /// seconds per byte.
  struct Samples {
    std::array<double, 2> last{};
    std::uint32_t count = 0;
    std::uint64_t taken = 0;  // the value of Table::sent at the last measurement
  };
  struct Table {
    std::vector<Samples> samples;  // indexed by algorithm and, within each algorithm, by block size
    std::uint64_t sent = 0;
    std::uint32_t unknown = 0;  // the number of trials in a row without a usable time
  };
  struct Known {
    double seconds = 0;
    bool is_certain = false;
  };

  CriticalPath path_of(std::uint64_t bytes, const MessagePlan& plan) const;
  double foretold(std::uint64_t bytes, const MessagePlan& plan) const;
  std::optional<Known> known(const Samples& samples, const Table& table, std::uint64_t bytes,
                             const MessagePlan& plan) const;
  void consider(std::size_t algorithm, std::uint64_t bytes, const Table& table, Next& best,
                double& best_seconds) const;
  Table& table_of(std::uint64_t bytes);

  std::uint32_t members_;
  Racks racks_;
  std::vector<Algorithm> algorithms_;
  std::vector<std::uint32_t> block_sizes_;
  // The results of uplink_messages() for each algorithm. The map is empty if every member has a link of its
  // own.
  std::map<Algorithm, double> crossings_;
  PathParameters path_;  // the parameters as learned so far
  PathFit fit_;
  Table untried_;
  std::map<std::uint64_t, Table> tables_;  // indexed by the number of binary digits of the message's length
};

}  // namespace rdmc::relay

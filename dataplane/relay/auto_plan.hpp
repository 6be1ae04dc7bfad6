// How each message of a group travels when that is `automatic`: the cost model chooses, and learns from how
// long messages have taken. What has been tried is known; of the rest the model foretells what it would take,
// and whatever promises to be quickest is next. The model is given the benefit of a doubt: what it thinks a
// little slower is tried, too, once or twice for messages of about one length. Times age: what was too slow
// long ago may have been the network of then. Pure; any thread.
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
  Fixed fixed{};  ///< the rest is chosen
  /// Members of one rack share a host: blocks between them take no link. Then the host pipeline may be
  /// chosen, too.
  bool racks_are_hosts = false;
  PathParameters guess{};  ///< before anything was learned; of its uplink nothing counts
};

/// All that may be chosen for a group whose members lie in these racks; never empty.
std::vector<Algorithm> auto_algorithms(const AutoConfig& config, const Racks& racks);

class AutoPlan {
 public:
  /// 1 <= members <= kMaxMembers; racks as for Schedule. Each rack is behind one link, which is as fast as a
  /// member's: what that costs is learned with all else.
  AutoPlan(const AutoConfig& config, std::uint32_t members, const Racks& racks);

  /// Of the next message.
  struct Next {
    MessagePlan plan;
    /// What it takes is foretold, and should be measured before others travel so: it should be sent alone.
    bool is_trial = false;
  };
  Next next(std::uint64_t bytes) const;
  /// One has been sent.
  void sent(std::uint64_t bytes);
  /// From its sending to its last delivery, when nothing else was under way at its beginning. `seconds` > 0.
  void took(std::uint64_t bytes, const MessagePlan& plan, double seconds);
  /// It took as long as an application needed. Where that is all that is ever heard, nothing is tried.
  void took_what_somebody_needed(std::uint64_t bytes);

 private:
  /// Of messages of about one length, within a factor of two, by one plan: the last two, in seconds per byte.
  struct Samples {
    std::array<double, 2> last{};
    std::uint32_t count = 0;
    std::uint64_t taken = 0;  // when so many of that length had been sent
  };
  struct Table {
    std::vector<Samples> samples;  // by algorithm and, within it, by block size
    std::uint64_t sent = 0;
    std::uint32_t unknown = 0;  // trials in a row that told nothing
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
  std::map<Algorithm, double> crossings_;  // uplink_messages(); none: every member has a link of its own
  PathParameters path_;                    // as far as is known
  PathFit fit_;
  Table untried_;
  std::map<std::uint64_t, Table> tables_;  // by the length's binary digits
};

}  // namespace rdmc::relay

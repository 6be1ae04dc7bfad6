// The requests of the clients of a simulated store and the answers to them, and the check that they are
// linearizable (Herlihy and Wing 1990). A register has one view in each epoch, and epochs only grow.
// Therefore the times at which a view can have become current form an interval, and the check is exact and
// fast.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "controlplane/view/types.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::sim_app {

class StoreHistory {
 public:
  /// Notes that a proposal was made. It may succeed or fail later.
  void proposed(const std::string& group, const view::View& next, Time at);
  /// Notes a request and its answer. A client sent the request at the time `asked`. At the time `answered` it
  /// got the answer that `current` is the current view.
  void told(const std::string& group, const view::View& current, Time asked, Time answered);
  /// Called when an operator has named a surviving node. Earlier views may then be lost, and other views of
  /// the same epochs may follow. An earlier proposal may still be accepted.
  void begin_anew();

  /// Returns the observations that no order explains. Returns an empty list if there are no such
  /// observations.
  std::vector<std::string> violations() const;
  std::size_t observations() const { return observations_; }
  /// Returns the number of views that are known to have been current.
  std::size_t views() const;

 private:
  struct Observation {
    Epoch epoch;
    Time asked, answered;
  };
  struct Group {
    std::map<Epoch, view::View> stood;
    std::vector<std::pair<view::View, Time>> proposals;
    std::vector<Observation> observations;
    std::vector<std::string> violations;
  };

  void check(const std::string& name, const Group& group, std::vector<std::string>& violations) const;

  std::map<std::string, Group> groups_;
  std::vector<std::string> earlier_violations_;
  std::size_t observations_ = 0, earlier_views_ = 0;
};

}  // namespace rdmc::sim_app

// What clients of a simulated store asked and were told, and whether one order of all that explains it
// (linearizability, Herlihy and Wing 1990). A register holds one view of each epoch, and epochs only rise;
// so the times at which each view can have begun to stand are an interval, and the check is exact and cheap.
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
  /// A proposal was made, whatever becomes of it.
  void proposed(const std::string& group, const view::View& next, Time at);
  /// Between those times a client was told that `current` stands.
  void told(const std::string& group, const view::View& current, Time asked, Time answered);
  /// An operator has named a survivor: what stood may be gone, and other views of the same epochs may follow.
  /// An earlier proposal may still be accepted.
  void begin_anew();

  /// What no order explains; empty: all is well.
  std::vector<std::string> violations() const;
  std::size_t observations() const { return observations_; }
  /// Views that are known to have stood.
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

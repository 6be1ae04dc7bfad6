// The hosts, processes and store of a simulated group, and the faults that strike them. This class observes
// what every process does, and reports violations.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/sim/views_member.hpp"
#include "apps/sim/views_scenario.hpp"

namespace rdmc::sim_app {

class ViewsWorld {
 public:
  explicit ViewsWorld(const ViewsOptions& options);

  /// Forms the group, lets the planned faults strike, and waits until the group is settled again.
  void run();
  ScenarioResult result();

 private:
  using Hosts = std::vector<sim::HostId>;

  void start(sim::HostId host);
  ViewsMember& begin(sim::HostId host, sim::HostId at, std::uint64_t machine);
  void stop(ViewsMember& member);
  bool may_serve(const ViewsMember& member) const;
  bool is_served() const;
  bool settle(Time limit, const std::string& what);
  bool is_settled() const;
  bool stays_settled();
  void violation(std::string what);

  // The following functions receive the reports of the processes.
  void on_installed(ViewsMember& member, const view::View& view);
  void on_removed(ViewsMember& member);
  void on_proposing(ViewsMember& member);
  void on_delivered(ViewsMember& member, Epoch epoch, view::MemberId from);
  void on_turned(ViewsMember& member);
  void look_for_removals();

  // The following functions are defined in views_faults.cpp.
  void plan_faults();
  void strike(ViewsFault fault);
  void kill(sim::HostId host, bool signalled);
  void tell_death(sim::HostId host, view::MemberId member);
  void restart_some_time(sim::HostId host);
  void stop_for(sim::HostId host, Duration time, bool clock_stops = false);
  void remove_as_operator(view::MemberId member);
  void refuse_falsely(view::MemberId member);
  void starve_for(sim::HostId host, Duration time);
  void part_hosts();
  void flap(sim::HostId a, sim::HostId b, bool broken);
  void heal();
  void until_later(Duration time, std::function<void()> undo);
  sim::HostId any_host() { return hosts_[simulation_.random().below(hosts_.size())]; }
  Duration up_to(Duration most);
  void struck(ViewsFault fault) { ++struck_[static_cast<std::size_t>(fault)]; }

  struct Death {
    view::MemberId member;
    Time at;
  };

  ViewsOptions options_;
  sim::Simulation simulation_;
  sim::Network network_;
  SimStore store_;
  ViewsMember::Observer observer_;
  Hosts hosts_;
  sim::HostId elsewhere_{};                             ///< The host of a process outside the group.
  std::deque<std::unique_ptr<ViewsMember>> processes_;  ///< All processes that ever ran.
  std::vector<ViewsMember*> current_;  ///< The newest process of each host, even if it is dead.
  ViewsMember* other_ = nullptr;       ///< The process on the host elsewhere_, if there is one.
  std::set<view::MemberId> leavers_, starved_;
  /// The members that are dead and that some process still has in its view.
  std::vector<Death> deaths_;
  bool kill_proposer_ = false;
  Time quiet_ = Time::never();  ///< The time at which the faults stop.
  /// The pairs of sender and receiver between which data has arrived since the last reset.
  std::set<std::pair<view::MemberId, view::MemberId>> heard_;

  std::array<std::uint64_t, kViewsFaults.size()> struck_{};
  view::MemberId server_{};  ///< The member that served last.
  std::uint64_t handovers_ = 0;
  std::uint64_t delivered_ = 0, removals_ = 0, healthy_removals_ = 0, deaths_noticed_ = 0;
  Duration formed_in_{}, settled_in_{}, slowest_removal_{};
  std::vector<std::string> violations_;
};

}  // namespace rdmc::sim_app

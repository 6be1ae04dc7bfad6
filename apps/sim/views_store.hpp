// The store of a simulated group. It keeps the liveness queries, and the view, which only a view of the next
// epoch can replace. The network to the store may be down, may exclude single hosts, and may lose an answer
// after the request was executed. The store itself may be late, may refuse requests, and may show an old
// view. The store keeps every view that ever was current.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>

#include "controlplane/view/view_store.hpp"
#include "dataplane/sim/simulation.hpp"

namespace rdmc::sim_app {

class SimStore {
 public:
  /// The time that a client waits for an answer. It is longer than the deadline of the failure view.
  static constexpr Duration kGiveUp = seconds(2);

  explicit SimStore(sim::Simulation& simulation) : simulation_(simulation) {}

  void set_down(bool down) { down_ = down; }
  void keep_away(sim::HostId host) { kept_away_.insert(host); }
  void let_in(sim::HostId host) { kept_away_.erase(host); }
  /// Sets the rate of lost answers, in parts per million. An answer is lost after the request was executed.
  void lose_answers(std::uint32_t rate) { lost_answers_ = rate; }
  void lose_hints(std::uint32_t rate) { lost_hints_ = rate; }
  /// Delays each answer by up to this time. Often no process waits for the answer any more.
  void be_late(Duration most) { late_ = most; }
  /// Sets the rate of refused requests, in parts per million. A refused request is not executed.
  void refuse(std::uint32_t rate) { refused_ = rate; }
  /// Removes that member from the view, like an operator's tool.
  void remove(view::MemberId member);
  /// Replaces the store by a backup. The backup shows the view of `epochs` epochs ago, and accepts no other
  /// view.
  void go_back(std::uint64_t epochs);
  void return_from_backup() { backup_.reset(); }

  void read(sim::HostId from, view::StoreEntry entry, view::ViewStore::ReadDone done);
  void compare_and_swap(sim::HostId from, view::StoreEntry entry, const view::View& next,
                        view::ViewStore::SwapDone done);
  /// Registers a watch. It ends when `hint` returns false, which means that the client is gone.
  void watch(sim::HostId from, std::move_only_function<bool()> hint);

  /// Returns all views that ever were current, by epoch.
  const std::map<Epoch, view::View>& history() const { return history_; }
  const view::View& current() const { return current_; }
  std::uint64_t claims() const { return value_of(claims_.epoch); }

 private:
  struct Watch {
    sim::HostId from;
    std::move_only_function<bool()> hint;
  };

  template <typename Done, typename Function>
  void ask(sim::HostId from, Done done, Function function);
  Result<view::SwapResult> swap(view::View& current, const view::View& next);
  view::SwapResult swap_view(const view::View& next);
  void tell_watches();
  bool reachable(sim::HostId from) const { return !down_ && !kept_away_.contains(from); }
  Time soon();

  sim::Simulation& simulation_;
  view::View current_, claims_;
  std::optional<view::View> backup_;
  std::map<Epoch, view::View> history_;
  std::vector<Watch> watches_;
  bool down_ = false;
  std::set<sim::HostId> kept_away_;
  std::uint32_t lost_answers_ = 0, lost_hints_ = 0, refused_ = 0;
  Duration late_{};
};

}  // namespace rdmc::sim_app

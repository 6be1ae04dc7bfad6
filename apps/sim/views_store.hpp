// The store of a simulated group: the view, which only a view of the next epoch replaces, and the liveness
// queries. The network to the store may be down, may exclude single hosts, and may lose an answer after the
// request was executed. The store itself may be late, may refuse requests, and may show an old view. It keeps
// every view that ever was current.
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
  /// Loses this rate of the answers, in parts per million, after the request was executed.
  void lose_answers(std::uint32_t rate) { lost_answers_ = rate; }
  void lose_hints(std::uint32_t rate) { lost_hints_ = rate; }
  /// Delays each answer by up to this time. Often no process waits for it then.
  void be_late(Duration most) { late_ = most; }
  /// Refuses this rate of the requests, in parts per million, without executing them.
  void refuse(std::uint32_t rate) { refused_ = rate; }
  /// An operator's tool removes that member from the view.
  void remove(view::MemberId member);
  /// A backup replaces the store. It shows the view of `epochs` epochs ago, and accepts no other view.
  void go_back(std::uint64_t epochs);
  void return_from_backup() { backup_.reset(); }

  void read(sim::HostId from, view::StoreEntry entry, view::ViewStore::ReadDone done);
  void compare_and_swap(sim::HostId from, view::StoreEntry entry, const view::View& next,
                        view::ViewStore::SwapDone done);
  /// Registers a watch. It ends when `hint` returns false, which means that the client is gone.
  void watch(sim::HostId from, std::move_only_function<bool()> hint);

  /// All views that ever were current, by epoch.
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

// The store of a simulated group: one view that only the next epoch replaces, and the claims beside it, at
// the end of a network that may be down, may keep single hosts away, and may lose the answer after the deed.
// The store itself may be late, may refuse, and may show what stood long ago. It remembers every view that
// ever stood.
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
  /// How clients wait for an answer that does not come; longer than the view's own deadline.
  static constexpr Duration kGiveUp = seconds(2);

  explicit SimStore(sim::Simulation& simulation) : simulation_(simulation) {}

  void set_down(bool down) { down_ = down; }
  void keep_away(sim::HostId host) { kept_away_.insert(host); }
  void let_in(sim::HostId host) { kept_away_.erase(host); }
  /// Of answers, in parts per million; what was asked is done.
  void lose_answers(std::uint32_t rate) { lost_answers_ = rate; }
  void lose_hints(std::uint32_t rate) { lost_hints_ = rate; }
  /// Each answer by up to so much, often after nobody waits for it any more.
  void be_late(Duration most) { late_ = most; }
  /// Of requests, in parts per million; nothing is done.
  void refuse(std::uint32_t rate) { refused_ = rate; }
  /// An operator's tool takes that member out of the view.
  void remove(view::MemberId member);
  /// A backup stands in: it shows the view that stood `epochs` before the present one, and takes no other.
  void go_back(std::uint64_t epochs);
  void return_from_backup() { backup_.reset(); }

  void read(sim::HostId from, view::StoreEntry record, view::ViewStore::ReadDone done);
  void compare_and_swap(sim::HostId from, view::StoreEntry record, const view::View& next,
                        view::ViewStore::SwapDone done);
  /// Until the client is gone: `hint` says so by returning false.
  void watch(sim::HostId from, std::move_only_function<bool()> hint);

  /// All views that ever stood, by epoch.
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

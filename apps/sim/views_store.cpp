#include "apps/sim/views_store.hpp"

#include <memory>
#include <utility>

namespace rdmc::sim_app {

/// Half of a round trip of 0.2 to 3 ms.
Time SimStore::soon() {
  return simulation_.now() + microseconds(static_cast<std::int64_t>(simulation_.random().between(100, 1500)));
}

/// `function` runs at the store, half a round trip from now, if the store is there; its result comes back
/// unless the way is broken by then.
template <typename Done, typename Function>
void SimStore::ask(sim::HostId from, Done done, Function function) {
  const auto answer = std::make_shared<Done>(std::move(done));
  const auto give_up = [this, answer](Time at) {
    simulation_.at(at, [answer] { (*answer)(fail(Errc::peer_failed, "the store can't be reached")); });
  };
  simulation_.at(soon(), [this, from, answer, give_up, function = std::move(function)] {
    const Time silent_until = simulation_.now() + kGiveUp;
    if (!reachable(from)) return give_up(silent_until);
    auto result = function();
    if (simulation_.random().chance(lost_answers_)) return give_up(silent_until);
    simulation_.at(soon(), [this, from, answer, give_up, silent_until, result = std::move(result)] {
      if (!reachable(from)) return give_up(silent_until);
      (*answer)(std::move(result));
    });
  });
}

void SimStore::read(sim::HostId from, view::ViewStore::ReadDone done) {
  ask(from, std::move(done), [this] { return Result<view::View>(current_); });
}

void SimStore::compare_and_swap(sim::HostId from, const view::View& next, view::ViewStore::SwapDone done) {
  ask(from, std::move(done), [this, next] {
    const bool swapped = next.epoch == view::next(current_.epoch);
    if (swapped) {
      current_ = next;
      history_.emplace(next.epoch, next);
      tell_watches();
    }
    return Result<view::SwapResult>({swapped, current_});
  });
}

void SimStore::watch(sim::HostId from, std::move_only_function<bool()> hint) {
  watches_.push_back({from, std::move(hint)});
}

void SimStore::tell_watches() {
  for (std::size_t i = 0; i < watches_.size(); ++i) {
    if (simulation_.random().chance(lost_hints_)) continue;
    simulation_.at(soon(), [this, i] {
      if (watches_[i].hint && reachable(watches_[i].from) && !watches_[i].hint()) watches_[i].hint = nullptr;
    });
  }
}

}  // namespace rdmc::sim_app

#include "apps/sim/views_store.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace rdmc::sim_app {

/// Returns the time after half of a round trip. A round trip takes 0.2 to 3 ms.
Time SimStore::soon() {
  return simulation_.now() + microseconds(static_cast<std::int64_t>(simulation_.random().between(100, 1500)));
}

/// Runs `function` at the store half a round trip from now, if the store can be reached. The result of
/// `function` is returned to the client, unless the store cannot be reached at that time.
template <typename Done, typename Function>
void SimStore::ask(sim::HostId from, Done done, Function function) {
  const auto answer = std::make_shared<Done>(std::move(done));
  const auto give_up = [this, answer](Time at) {
    simulation_.at(at, [answer] { (*answer)(fail(Errc::peer_failed, "the store can't be reached")); });
  };
  simulation_.at(soon(), [this, from, answer, give_up, function = std::move(function)] {
    const Time silent_until = simulation_.now() + kGiveUp;
    if (!reachable(from)) return give_up(silent_until);
    using Answer = decltype(function());
    const bool refused = simulation_.random().chance(refused_);
    auto result = refused ? Answer(fail(Errc::io_error, "the store refuses")) : function();
    if (simulation_.random().chance(lost_answers_)) return give_up(silent_until);
    Time at = soon();
    if (late_ > Duration{})
      at = at + late_ * static_cast<std::int64_t>(simulation_.random().below(1000)) / 1000;
    simulation_.at(at, [this, from, answer, give_up, silent_until, result = std::move(result)] {
      if (!reachable(from)) return give_up(silent_until);
      (*answer)(std::move(result));
    });
  });
}

void SimStore::go_back(std::uint64_t epochs) {
  const auto stood =
      history_.find(Epoch{value_of(current_.epoch) - std::min(epochs, value_of(current_.epoch))});
  backup_ = stood == history_.end() ? view::View{} : stood->second;
}

void SimStore::read(sim::HostId from, view::StoreEntry entry, view::ViewStore::ReadDone done) {
  ask(from, std::move(done), [this, entry] {
    if (entry == view::StoreEntry::claim) return Result<view::View>(claims_);
    return Result<view::View>(backup_.value_or(current_));
  });
}

Result<view::SwapResult> SimStore::swap(view::View& current, const view::View& next) {
  const bool swapped = next.epoch == view::next(current.epoch);
  if (swapped) current = next;
  return view::SwapResult{swapped, current};
}

void SimStore::compare_and_swap(sim::HostId from, view::StoreEntry entry, const view::View& next,
                                view::ViewStore::SwapDone done) {
  ask(from, std::move(done), [this, entry, next]() -> Result<view::SwapResult> {
    if (entry == view::StoreEntry::claim) return swap(claims_, next);
    if (backup_ && next.epoch == view::next(backup_->epoch))
      return fail(Errc::io_error, "a backup takes no other view");
    if (backup_) return view::SwapResult{false, *backup_};
    return swap_view(next);
  });
}

view::SwapResult SimStore::swap_view(const view::View& next) {
  const view::SwapResult result = swap(current_, next).value();
  if (result.swapped) {
    history_.emplace(next.epoch, next);
    tell_watches();
  }
  return result;
}

void SimStore::remove(view::MemberId member) {
  if (!down_ && !backup_ && current_.contains(member)) swap_view(view::without(current_, member));
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

#include "apps/replicated-kv/server/local_order.hpp"

#include <algorithm>

namespace rdmc::kv {

namespace {

constexpr std::int64_t kNanosecondsInMillisecond = 1'000'000;
/// The limit for the events of one turn.
constexpr std::size_t kMostSubmitted = 64;

}  // namespace

void LocalOrder::start(std::uint64_t server, std::uint64_t seed, Moment now) {
  seed_ = seed;
  position_ = stable_ = log_.place().position;
  time_ = log_.place().time;
  clock_.observe(time_ / kNanosecondsInMillisecond, now.steady);
  epoch_ = std::max<std::uint64_t>(log_.place().epoch, 1);
  service_.begin(*this, server);
  service_.on_servers({server});
  service_.on_status({.is_main = true,
                      .is_complete = true,
                      .is_lost = false,
                      .complete_replicas = 1,
                      .stored_replicas = 1,
                      .main = MemberId{server}},
                     now);
  service_.on_stable(stable_);
}

Result<std::uint64_t> LocalOrder::submit(std::span<const std::byte> event) {
  if (submitted_.size() >= kMostSubmitted)
    return fail(Errc::would_block, "the events of a turn are too many");
  submitted_.emplace_back(event.begin(), event.end());
  return ++last_number_;
}

void LocalOrder::work(Moment now) {
  time_ = std::max(time_, clock_.read(now.wall, now.steady) * kNanosecondsInMillisecond);
  clock_.observe(time_ / kNanosecondsInMillisecond, now.steady);
  std::uint64_t number = last_number_ - submitted_.size();
  for (const Bytes& bytes : submitted_) {
    const OrderedEvent event{.position = position_++,
                             .epoch = epoch_,
                             .own_number = ++number,
                             .time = time_,
                             .random = seed_ += 0x9E3779B97F4A7C15,
                             .bytes = bytes,
                             .keeper = {}};
    service_.on_event(event);
    log_.append(event);
  }
  submitted_.clear();
  const std::uint64_t stable = awaits_disk_ ? log_.persisted() : log_.written();
  if (stable > stable_) service_.on_stable(stable_ = stable);
}

bool LoggedService::load(std::span<const std::byte> piece) {
  is_given_up_ = !while_reading_();
  if (!std::exchange(is_loading_, true)) service_.on_load({.step = LoadState::Step::begin});
  return service_.on_load({.step = LoadState::Step::bytes, .bytes = piece});
}

bool LoggedService::end_load(const StoredState& place) {
  is_loading_ = false;
  return service_.on_load({.step = LoadState::Step::end, .position = place.position});
}

}  // namespace rdmc::kv

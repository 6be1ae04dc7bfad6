#include "apps/bcast-cli/agent.hpp"

#include <fmt/format.h>

#include <utility>

namespace rdmc::bcast {

Result<std::unique_ptr<Agent>> Agent::start(control::ControlLoop& loop, Root root, const Address& listen,
                                            control::Security security, OutcomeHandler outcome) {
  std::unique_ptr<Agent> agent(new Agent(loop, std::move(root), std::move(outcome)));
  control::ListenOptions options{.channel = {.security = std::move(security)}};
  auto listener = control::Listener::listen(
      loop, listen, options,
      {.on_channel = [raw = agent.get()](control::Channel channel) { raw->on_channel(std::move(channel)); },
       .on_refused = {}});
  if (!listener)
    return fail(listener.error().code,
                fmt::format("cannot listen on {}: {}", to_string(listen), listener.error().what));
  agent->listener_.emplace(std::move(*listener));
  return agent;
}

Agent::~Agent() {
  stop();
}

void Agent::on_channel(control::Channel channel) {
  // Dropping the channel refuses the sender; the listener's own bound is on those that have not proved the
  // key.
  if (receptions_.size() >= kMaxReceptions) return;
  const auto number = next_number_++;
  auto reception =
      Reception::begin(loop_, root_, std::move(channel),
                       [this, number](const Reception::Outcome& outcome) { on_finished(outcome, number); });
  if (!reception) return;
  receptions_.emplace(number, std::move(*reception));
  const std::lock_guard lock(mutex_);
  active_ = receptions_.size();
}

void Agent::on_finished(const Reception::Outcome& outcome, std::uint64_t number) {
  if (!outcome.path.empty() && outcome_) outcome_(outcome);
  receptions_.erase(number);
  {
    const std::lock_guard lock(mutex_);
    active_ = receptions_.size();
  }
  changed_.notify_all();
}

void Agent::stop(Duration patience) {
  listener_.reset();
  loop_.call([this] {
    const auto running = receptions_;  // some end at once
    for (const auto& [number, reception] : running)
      reception->stop({Errc::cancelled, "was asked to stop and is gone"});
  });
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::nanoseconds(patience.ns), [this] { return active_ == 0; });
  lock.unlock();
  loop_.call([this] { receptions_.clear(); });
}

}  // namespace rdmc::bcast

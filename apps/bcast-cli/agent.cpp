#include "apps/bcast-cli/agent.hpp"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "apps/bcast-cli/turn_away.hpp"
#include "dataplane/base/clock.hpp"

namespace rdmc::bcast {

Agent::Agent(control::ControlLoop& loop, ReceiveDirectory directory, std::shared_ptr<peer::Peers> peers,
             OutcomeHandler outcome, RefusedHandler refused, std::size_t max_receptions, FabricChoice fabric)
    : loop_(loop),
      services_{.loop = loop,
                .directory = std::move(directory),
                .peers = std::move(peers),
                .fabric = std::move(fabric),
                .find = [this](const session::SessionId& session) -> std::shared_ptr<Reception> {
                  for (const auto& [number, reception] : receptions_)
                    if (reception->is_of(session)) return reception;
                  return nullptr;
                },
                .admit = [this](const Address& peer) { return admit(peer); }},
      outcome_(std::move(outcome)),
      refused_(std::move(refused)),
      max_receptions_(max_receptions) {}

Result<std::unique_ptr<Agent>> Agent::start(control::ControlLoop& loop, ReceiveDirectory directory,
                                            const Address& listen, control::Security security,
                                            OutcomeHandler outcome, RefusedHandler refused,
                                            std::size_t max_receptions, FabricChoice fabric) {
  auto peers = peer::Peers::create(loop, {.security = std::move(security)});
  if (!peers) return std::unexpected(peers.error());
  std::unique_ptr<Agent> agent(new Agent(loop, std::move(directory), *peers, std::move(outcome),
                                         std::move(refused), max_receptions, std::move(fabric)));
  auto service = (*peers)->serve(kService, [raw = agent.get()](peer::Request request) {
    if (auto channel = request.accept({})) raw->on_channel(std::move(*channel));
  });
  if (!service) return std::unexpected(service.error());
  agent->service_ = std::move(*service);
  auto listener = (*peers)->listen(
      listen, {.channel = (*peers)->options()},
      [raw = agent.get()](const Address& from, const Error& cause) { raw->on_refused(from, cause); });
  if (!listener) return std::unexpected(listener.error());
  agent->listener_.emplace(std::move(*listener));
  return agent;
}

Agent::~Agent() {
  stop();
  // Connections that have sent no introduction are refused now, while on_refused() can still be called.
  services_.peers.reset();
}

void Agent::on_channel(control::Channel channel) {
  if (receptions_.size() >= max_receptions_ + kMaxNewcomers)
    return refuse(std::move(channel), {Errc::resource_limit, "has too many connections that say nothing"});
  const auto number = next_number_++;
  auto reception = Reception::begin(services_, std::move(channel),
                                    [this, number, peer = channel.peer()](const Reception::Outcome& outcome) {
                                      on_finished(outcome, peer, number);
                                    });
  if (!reception) return refuse(std::move(channel), std::move(reception.error()));
  receptions_.emplace(number, std::move(*reception));
  const std::lock_guard lock(mutex_);
  active_ = receptions_.size();
}

/// Checks whether one more transfer may begin. Not called for the channel of a survivor that belongs to a
/// running transfer, because this is no additional transfer.
Result<void> Agent::admit(const Address& peer) {
  const auto under_way = static_cast<std::size_t>(
      std::ranges::count_if(receptions_ | std::views::values, &Reception::is_admitted));
  if (under_way < max_receptions_) return {};
  auto full = fail(Errc::resource_limit, fmt::format("has {} transfers under way", under_way));
  on_refused(peer, full.error());
  return full;
}

void Agent::refuse(control::Channel channel, Error cause) {
  on_refused(channel.peer(), cause);
  // If the channel is only dropped, the sender is also refused, but gets no reason.
  if (turned_away_.use_count() <= kMaxTurnedAway)
    turn_away(loop_, std::move(channel), std::move(cause), turned_away_);
}

void Agent::on_refused(const Address& peer, const Error& cause) {
  // Two cases are not reported: a connection that only tested whether the port is open, and a sender that has
  // given up.
  if (!refused_ || cause.code == Errc::peer_failed || cause.code == Errc::cancelled) return;
  if (const auto others = refusals_.take(monotonic_now())) refused_(peer, cause, *others);
}

void Agent::on_finished(const Reception::Outcome& outcome, const Address& peer, std::uint64_t number) {
  if (!outcome.path.empty() && outcome_) outcome_(outcome);
  if (outcome.strange) on_refused(peer, *outcome.strange);
  receptions_.erase(number);
  // After many transfers at the same time, the allocator keeps much free memory. This call returns the memory
  // to the kernel, so that an idle agent is small.
  if (receptions_.empty()) ::malloc_trim(0);
  {
    const std::lock_guard lock(mutex_);
    active_ = receptions_.size();
  }
  changed_.notify_all();
}

bool Agent::is_busy() {
  const std::lock_guard lock(mutex_);
  return active_ > 0;
}

void Agent::finish(Duration patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::nanoseconds(patience.ns), [this] { return active_ == 0; });
}

void Agent::stop(Duration patience) {
  service_ = {};
  listener_.reset();
  loop_.call([this] {
    const auto running = receptions_;  // A copy is needed, because some receptions end during the loop.
    for (const auto& [number, reception] : running)
      reception->stop({Errc::cancelled, "was asked to stop and is gone"});
  });
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::nanoseconds(patience.ns), [this] { return active_ == 0; });
  lock.unlock();
  loop_.call([this] { receptions_.clear(); });
}

}  // namespace rdmc::bcast

#include "apps/bcast-cli/new_coordinator.hpp"

#include <algorithm>
#include <ranges>
#include <utility>
#include <variant>

#include "apps/bcast-cli/commit_time.hpp"
#include "apps/bcast-cli/recovery.hpp"
#include "apps/bcast-cli/transfer_messages.hpp"
#include "dataplane/base/clock.hpp"

namespace rdmc::bcast {
namespace {

session::CoordinatorConfig session_config(const NewCoordinatorConfig& config) {
  session::CoordinatorConfig session = config.request.config;
  session.job_bytes = config.shape.size;
  session.timing.commit_timeout = session.timing.commit_timeout + time_to_sync(config.shape.size);
  return session;
}

}  // namespace

NewCoordinator::NewCoordinator(control::ControlLoop& loop, NewCoordinatorConfig config, Handlers handlers)
    : loop_(loop),
      config_(std::move(config)),
      handlers_(std::move(handlers)),
      self_(config_.request.config.leader),
      coordinator_(session_config(config_), config_.request.participants) {
  for (const auto& participant : config_.request.participants)
    peers_[participant.member].address = participant.address;
}

std::shared_ptr<NewCoordinator> NewCoordinator::start(control::ControlLoop& loop, NewCoordinatorConfig config,
                                                      Handlers handlers) {
  std::shared_ptr<NewCoordinator> self(new NewCoordinator(loop, std::move(config), std::move(handlers)));
  self->coordinator_.start(monotonic_now());
  self->pump();
  return self;
}

void NewCoordinator::pump() {
  if (pumping_) return;
  const auto self = shared_from_this();
  pumping_ = true;
  while (auto output = coordinator_.poll()) std::visit([&](auto& value) { handle(value); }, *output);
  pumping_ = false;
  arm_timer();
  finish_if_done();
}

void NewCoordinator::arm_timer() {
  const auto deadline = coordinator_.next_deadline();
  if (deadline == Time::never()) {
    timer_ = {};
    return;
  }
  timer_ = loop_.after(std::max(deadline - monotonic_now(), Duration{}), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->coordinator_.on_timer(monotonic_now());
      self->pump();
    }
  });
}

/// Runs `task` from the loop. So the coordinator and the participant of this process never call each other
/// from within a call.
void NewCoordinator::post_own(std::function<void(NewCoordinator&)> task) {
  loop_.post([weak = weak_from_this(), task = std::move(task)] {
    if (const auto self = weak.lock()) task(*self);
  });
}

void NewCoordinator::from_own(session::Bytes message) {
  post_own([message = std::move(message)](NewCoordinator& self) {
    self.coordinator_.on_message(self.self_, message, monotonic_now());
    self.pump();
  });
}

void NewCoordinator::own_closed() {
  post_own([](NewCoordinator& self) {
    self.coordinator_.on_closed(self.self_, {Errc::cancelled, "is done"}, monotonic_now());
    self.pump();
  });
}

void NewCoordinator::handle(session::Send& send) {
  if (send.member == self_) {
    return post_own(
        [message = std::move(send.bytes)](NewCoordinator& self) { self.handlers_.to_own(message); });
  }
  auto& peer = peers_.at(send.member);
  if (!peer.channel) return;
  const auto sent = peer.channel->send(std::move(send.bytes));
  if (sent || sent.error().code != Errc::would_block) return;  // A closed channel reports its end by itself.
  loop_.post([weak = weak_from_this(), member = send.member, attempt = peer.attempt, cause = sent.error()] {
    if (const auto self = weak.lock()) self->on_closed(member, attempt, cause);
  });
}

void NewCoordinator::handle(const session::CloseChannel& close) {
  if (close.member == self_) return post_own([](NewCoordinator& self) { self.handlers_.close_own(); });
  auto& peer = peers_.at(close.member);
  peer.opening = {};
  peer.closing = true;
  if (peer.channel) peer.channel->close();
}

void NewCoordinator::handle(const session::ConnectRequested& request) {
  if (request.member == self_) return coordinator_.on_connected(self_, monotonic_now());
  connect(request.member);
}

void NewCoordinator::connect(session::MemberId member) {
  auto& peer = peers_.at(member);
  const auto attempt = ++peer.attempt;
  peer.channel.reset();
  peer.open = peer.closing = false;
  const auto address = parse_address(peer.address, 0);
  if (!address) return coordinator_.on_closed(member, address.error(), monotonic_now());
  peer.opening = config_.peers->open(
      host_string(*address), address->port, config_.request.config.timing.connect_timeout, kService, {},
      [weak = weak_from_this(), member, attempt](Result<control::Channel> channel, const peer::Offer&) {
        if (const auto self = weak.lock()) self->on_connected(member, attempt, std::move(channel));
      });
}

void NewCoordinator::on_connected(session::MemberId member, std::uint64_t attempt,
                                  Result<control::Channel> channel) {
  auto& peer = peers_.at(member);
  if (peer.attempt != attempt) return;
  if (!channel) {
    coordinator_.on_closed(member, channel.error(), monotonic_now());
    return pump();
  }
  peer.channel.emplace(std::move(*channel));
  peer.open = true;
  peer.channel->start(
      [weak = weak_from_this(), member, attempt](std::vector<std::byte> message) {
        const auto self = weak.lock();
        if (!self || self->peers_.at(member).attempt != attempt || self->peers_.at(member).closing) return;
        self->coordinator_.on_message(member, message, monotonic_now());
        self->pump();
      },
      [weak = weak_from_this(), member, attempt](const Error& cause) {
        if (const auto self = weak.lock()) self->on_closed(member, attempt, cause);
      });
  coordinator_.on_connected(member, monotonic_now());
  pump();
}

void NewCoordinator::on_closed(session::MemberId member, std::uint64_t attempt, const Error& cause) {
  auto& peer = peers_.at(member);
  if (peer.attempt != attempt) return;
  peer.open = false;
  if (!peer.closing) coordinator_.on_closed(member, cause, monotonic_now());
  pump();
}

void NewCoordinator::handle(const session::ParametersNeeded& needed) {
  const auto now = monotonic_now();
  const auto epoch = plan_recovery(needed, config_.shape.blocks());
  if (!epoch) return coordinator_.interrupt(epoch.error(), now);
  if (!coordinator_.expected_report()) {
    return coordinator_.interrupt(
        {Errc::peer_failed, "the sender died and nobody alive knows the digest of its file"}, now);
  }
  const TransferWishes& wishes = config_.wishes;
  const auto ranking = rank_by_rack(epoch->members, wishes.racks);
  coordinator_.form(needed.epoch,
                    encode(EpochParameters{.algorithm = wishes.algorithm,
                                           .racks = ranking.racks,
                                           .suspect_after = wishes.suspect_after,
                                           .blocks = epoch->blocks}),
                    now, epoch->source, ranking.members);
}

void NewCoordinator::handle(const session::JobFinished&) {
  job_finished_ = true;
}

void NewCoordinator::finish_if_done() {
  if (!job_finished_ || told_ || std::ranges::any_of(peers_ | std::views::values, &Peer::open)) return;
  told_ = true;
  post_own([](NewCoordinator& self) { self.handlers_.finished(); });
}

}  // namespace rdmc::bcast

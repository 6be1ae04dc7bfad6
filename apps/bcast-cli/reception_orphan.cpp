// After the sender's death, a receiver becomes the coordinator, or it follows another survivor that has
// become the coordinator. This file implements both. A survivor's channel arrives like a sender's channel.
// The first message on the channel names the reception to which the channel belongs.
#include <utility>

#include "apps/bcast-cli/reception.hpp"
#include "dataplane/base/clock.hpp"

namespace rdmc::bcast {

void Reception::handle(session::LeadRequested& request) {
  const auto weak = weak_from_this();
  // A new coordinator that has stood down is destroyed. The tasks that it has posted then find no object, so
  // they do not call these handlers any more.
  NewCoordinator::Handlers handlers{
      .to_own =
          [weak](const session::Bytes& message) {
            const auto self = weak.lock();
            if (!self || !self->follows_own_) return;
            self->participant_.on_message(message, monotonic_now());
            self->pump();
          },
      .close_own =
          [weak] {
            const auto self = weak.lock();
            if (!self || !self->follows_own_) return;
            self->participant_.on_closed({Errc::cancelled, "is done"}, monotonic_now());
            self->pump();
          },
      .finished =
          [weak] {
            if (const auto self = weak.lock()) self->finish_if_done();
          }};
  follows_own_ = true;
  participant_.on_connected(monotonic_now());
  new_coordinator_ = NewCoordinator::start(
      loop_,
      {.request = std::move(request), .peers = services_.peers, .shape = job_.shape, .wishes = wishes_},
      std::move(handlers));
}

/// Called when a survivor has connected to take over an orphan of this agent. The survivor's channel moves to
/// the orphan's reception, or it is refused. This reception ends.
void Reception::give_away(const session::Takeover& takeover, std::vector<std::byte> message) {
  const auto orphan = services_.find(takeover.session);
  if (orphan && orphan->follow(takeover.leader)) {
    channel_closed_ = true;  // This reception has no channel any more.
    auto channel = std::move(*channel_);
    channel_.reset();
    orphan->adopt(std::move(channel), std::exchange(inbox_, std::make_shared<Inbox>()), message);
  } else if (orphan) {
    (void)channel_->send(session::takeover_refusal());
  }
  stop({Errc::cancelled, "a survivor came for another transfer"});
}

/// Returns true if this reception is an orphan, so that it can follow `leader`. This process may run a new
/// coordinator that has not chosen an epoch yet. If `leader` has priority over it, this new coordinator is
/// given up first.
bool Reception::follow(session::MemberId leader) {
  if (new_coordinator_ && new_coordinator_->stands_down_for(leader)) {
    new_coordinator_.reset();
    participant_.on_closed({Errc::cancelled, "another survivor leads on"}, monotonic_now());
  }
  return participant_.is_orphan();
}

void Reception::adopt(control::Channel channel, std::shared_ptr<Inbox> inbox,
                      const std::vector<std::byte>& message) {
  inbox_->owner.reset();  // This makes the earlier channel's further messages ignored.
  inbox_ = std::move(inbox);
  inbox_->owner = weak_from_this();
  channel_.emplace(std::move(channel));
  channel_closed_ = follows_own_ = false;
  const auto now = monotonic_now();
  participant_.on_connected(now);
  participant_.on_message(message, now);
  pump();
}

}  // namespace rdmc::bcast

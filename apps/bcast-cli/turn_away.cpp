#include "apps/bcast-cli/turn_away.hpp"

#include <utility>
#include <variant>
#include <vector>

#include "controlplane/session/participant.hpp"
#include "dataplane/base/clock.hpp"

namespace rdmc::bcast {
namespace {

/// A participant that reports a failure as soon as the protocol allows it, which is after the coordinator's
/// first message.
struct TurnedAway {
  control::Channel channel;
  Error cause;
  std::shared_ptr<void> ticket;
  session::Participant participant;
  control::Timer timer;

  void drain() {
    while (auto output = participant.poll()) {
      if (auto* const message = std::get_if<session::Send>(&*output))
        (void)channel.send(std::move(message->bytes));  // A closed channel reports its end by itself.
    }
  }
};

}  // namespace

void turn_away(control::ControlLoop& loop, control::Channel channel, Error cause,
               std::shared_ptr<void> ticket) {
  const session::ParticipantConfig config{.agent = "rdmc_bcast " RDMC_VERSION, .timing = {}};
  // The channel's handlers own this object. The channel releases its handlers when it has closed.
  const std::shared_ptr<TurnedAway> self(new TurnedAway{
      std::move(channel), std::move(cause), std::move(ticket), session::Participant(config), {}});
  self->channel.start(
      [self](std::vector<std::byte> message) {
        const auto now = monotonic_now();
        self->participant.on_message(message, now);
        self->participant.fail(self->cause, now);
        self->drain();
        self->channel.close();
      },
      [self](const Error&) { self->timer = {}; });
  self->participant.on_connected(monotonic_now());
  self->drain();
  self->timer = loop.after(config.timing.greet_timeout, [weak = std::weak_ptr(self)] {
    if (const auto late = weak.lock()) late->channel.close();
  });
}

}  // namespace rdmc::bcast

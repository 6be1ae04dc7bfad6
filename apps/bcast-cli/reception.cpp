#include "apps/bcast-cli/reception.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "dataplane/base/clock.hpp"

namespace rdmc::bcast {
namespace {

/// The interval at which the participant gets the number of bytes that the file has. The participant sends at
/// most four reports per second.
constexpr Duration kLookAtProgress = milliseconds(50);

}  // namespace

Result<std::shared_ptr<Reception>> Reception::begin(const Services& services, control::Channel&& channel,
                                                    FinishedHandler finished) {
  auto worker = Worker::start();
  if (!worker) return std::unexpected(worker.error());
  std::shared_ptr<Reception> self(new Reception(services, std::move(channel), std::move(finished)));
  self->worker_ = std::move(*worker);
  self->inbox_->owner = self;
  self->channel_->start(
      [inbox = self->inbox_](std::vector<std::byte> message) {
        if (const auto reception = inbox->owner.lock()) reception->on_message(std::move(message));
      },
      [inbox = self->inbox_](const Error& cause) {
        if (const auto reception = inbox->owner.lock()) reception->on_channel_closed(cause);
      });
  self->participant_.on_connected(monotonic_now());
  self->pump();
  return self;
}

Reception::Reception(const Services& services, control::Channel channel, FinishedHandler finished)
    : services_(services),
      loop_(services.loop),
      channel_(std::move(channel)),
      finished_(std::move(finished)),
      participant_({.agent = "rdmc_bcast " RDMC_VERSION, .timing = {}}),
      start_(monotonic_now()) {
  outcome_.peer = to_string(channel_->peer());
}

Reception::~Reception() {
  worker_.reset();  // This waits for the worker's task that uses the file.
  committer_.reset();
  if (data_plane_) data_plane_->end_now();  // From here on, the sink is not used.
}

void Reception::stop(Error cause) {
  stopped_ = true;
  new_coordinator_.reset();  // The participants of the new coordinator will find another coordinator.
  if (committer_) cause.what += session::kMayBeInPlace;
  participant_.fail(std::move(cause), monotonic_now());
  pump();
}

void Reception::give_up(Error cause) {
  participant_.fail(std::move(cause), monotonic_now());
}

void Reception::pump() {
  if (pumping_) return;
  const auto self = shared_from_this();  // This keeps the object alive, because an output may release it.
  pumping_ = true;
  while (auto output = participant_.poll()) std::visit([&](auto& value) { handle(value); }, *output);
  pumping_ = false;
  arm_timer();
  finish_if_done();
}

void Reception::arm_timer() {
  auto deadline = participant_.next_deadline();
  const auto now = monotonic_now();
  if (sink_) deadline = std::min(deadline, now + kLookAtProgress);
  if (deadline >= timer_at_) return;  // A timer that fires too early does no harm: it is set again.
  timer_at_ = deadline;
  timer_ = loop_.after(std::max(deadline - now, Duration{}), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->on_timer();
  });
}

void Reception::on_timer() {
  timer_at_ = Time::never();
  const auto now = monotonic_now();
  if (sink_) participant_.progress(sink_->bytes_held(), now);
  participant_.on_timer(now);
  pump();
}

void Reception::on_message(std::vector<std::byte> message) {
  const bool greeting = !std::exchange(spoken_to_, true);
  if (greeting) {
    if (const auto takeover = session::takeover_of(message)) return give_away(*takeover, std::move(message));
  }
  participant_.on_message(message, monotonic_now());
  if (greeting) {
    if (auto room = services_.admit(channel_->peer()); !room) return stop(std::move(room.error()));
    admitted_ = true;
  }
  pump();
}

void Reception::on_channel_closed(const Error& cause) {
  channel_closed_ = true;
  if (outcome_.path.empty() && !stopped_ && !outcome_.strange) {
    const bool silent = !spoken_to_ && cause.code == Errc::cancelled;
    outcome_.strange = silent ? Error{Errc::protocol_error, "closed the channel without a word"} : cause;
  }
  if (!follows_own_) participant_.on_closed(cause, monotonic_now());
  pump();
}

void Reception::handle(session::Send& send) {
  if (follows_own_) {
    if (new_coordinator_) new_coordinator_->from_own(std::move(send.bytes));
    return;
  }
  if (!channel_) return;  // The channel has moved to another reception.
  const auto sent = channel_->send(std::move(send.bytes));
  if (sent || sent.error().code != Errc::would_block) return;  // A closed channel reports its end by itself.
  // The coordinator has not read for so long that the channel accepts no more data. The coordinator is
  // treated as lost.
  loop_.post([inbox = inbox_, cause = sent.error()] {
    if (const auto self = inbox->owner.lock()) {
      self->participant_.on_closed(cause, monotonic_now());
      self->pump();
    }
  });
}

void Reception::handle(const session::CloseChannel&) {
  if (follows_own_ && new_coordinator_)
    new_coordinator_->own_closed();
  else if (!follows_own_ && channel_)
    channel_->close();
}

void Reception::handle(session::Finished& finished) {
  outcome_.event.status = finished.status;
  if (outcome_.path.empty() && !stopped_ && !outcome_.strange) outcome_.strange = finished.cause;
  if (finished.status != session::Status::ok) outcome_.event.cause = std::move(finished.cause.what);
  // The time of a successful reception ends at its commit. The reception may continue after the commit,
  // because other members need its blocks.
  if (finished.status != session::Status::ok || outcome_.event.seconds == 0)
    outcome_.event.seconds = (monotonic_now() - start_).seconds();
  if (channel_) channel_->close();
  if (finished.status != session::Status::ok) unwanted_.request_stop();
  tear_down([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->drop_file([weak] {
      if (const auto cleaned = weak.lock()) {
        cleaned->cleaned_up_ = true;
        cleaned->finish_if_done();
      }
    });
  });
}

void Reception::finish_if_done() {
  if (!cleaned_up_ || !channel_closed_ || !finished_ || (new_coordinator_ && !new_coordinator_->finished()))
    return;
  auto finished = std::exchange(finished_, nullptr);
  finished(outcome_);
}

}  // namespace rdmc::bcast

#include "apps/bcast-cli/reception.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "dataplane/base/clock.hpp"

namespace rdmc::bcast {
namespace {

/// How often the session hears how much is held; it passes on four a second.
constexpr Duration kLookAtProgress = milliseconds(50);

}  // namespace

Result<std::shared_ptr<Reception>> Reception::begin(control::ControlLoop& loop, const Root& root,
                                                    control::Channel&& channel, FinishedHandler finished) {
  auto worker = Worker::start();
  if (!worker) return std::unexpected(worker.error());
  std::shared_ptr<Reception> self(new Reception(loop, root, std::move(channel), std::move(finished)));
  self->worker_ = std::move(*worker);
  const std::weak_ptr<Reception> weak = self;
  self->channel_->start(
      [weak](std::vector<std::byte> message) {
        if (const auto reception = weak.lock()) {
          reception->participant_.on_message(message, monotonic_now());
          reception->pump();
        }
      },
      [weak](const Error& cause) {
        if (const auto reception = weak.lock()) reception->on_channel_closed(cause);
      });
  self->participant_.on_connected(monotonic_now());
  self->pump();
  return self;
}

Reception::Reception(control::ControlLoop& loop, const Root& root, control::Channel channel,
                     FinishedHandler finished)
    : loop_(loop),
      root_(root),
      channel_(std::move(channel)),
      finished_(std::move(finished)),
      participant_({.agent = "rdmc_bcast " RDMC_VERSION, .timing = {}}),
      start_(monotonic_now()) {
  outcome_.peer = to_string(channel_->peer());
}

Reception::~Reception() {
  worker_.reset();                          // waits for what it does with the file
  if (data_plane_) data_plane_->end_now();  // from here on nobody touches the sink
}

void Reception::stop(Error cause) {
  participant_.fail(std::move(cause), monotonic_now());
  pump();
}

void Reception::give_up(Error cause) {
  participant_.fail(std::move(cause), monotonic_now());
}

void Reception::pump() {
  if (pumping_) return;
  const auto self = shared_from_this();  // an output may be our end
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
  if (deadline == Time::never()) {
    timer_ = {};
    return;
  }
  timer_ = loop_.after(std::max(deadline - now, Duration{}), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->on_timer();
  });
}

void Reception::on_timer() {
  const auto now = monotonic_now();
  if (sink_) participant_.progress(sink_->bytes_held(), now);
  participant_.on_timer(now);
  pump();
}

void Reception::on_channel_closed(const Error& cause) {
  channel_closed_ = true;
  participant_.on_closed(cause, monotonic_now());
  pump();
}

void Reception::handle(session::Send& send) {
  const auto sent = channel_->send(std::move(send.bytes));
  if (sent || sent.error().code != Errc::would_block) return;  // a closed channel says so by itself
  // A coordinator that does not read for so long is gone.
  loop_.post([weak = weak_from_this(), cause = sent.error()] {
    if (const auto self = weak.lock()) {
      self->participant_.on_closed(cause, monotonic_now());
      self->pump();
    }
  });
}

void Reception::handle(const session::CloseChannel&) {
  channel_->close();
}

void Reception::handle(session::Finished& finished) {
  outcome_.event.status = finished.status;
  if (finished.status != session::Status::ok) outcome_.event.cause = std::move(finished.cause.what);
  outcome_.event.seconds = (monotonic_now() - start_).seconds();
  channel_->close();
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
  if (!cleaned_up_ || !channel_closed_ || !finished_) return;
  auto finished = std::exchange(finished_, nullptr);
  finished(outcome_);
}

}  // namespace rdmc::bcast

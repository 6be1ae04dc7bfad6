#include "apps/bcast-cli/sender.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <variant>

#include "apps/bcast-cli/commit_time.hpp"
#include "apps/units/units.hpp"
#include "controlplane/launch/hostlist.hpp"
#include "dataplane/base/clock.hpp"

namespace rdmc::bcast {
namespace {

/// The time between two attempts to reach a receiver that is still starting.
constexpr Duration kAskAgain = milliseconds(50);
/// The session's timeout is longer than the connection's timeout by this time. So the error of the
/// connection, which is more precise, is reported.
constexpr Duration kCauseWithin = milliseconds(500);
/// The time that a failed receiver may take to read the cause, after all other receivers have ended.
constexpr Duration kLastWords = milliseconds(500);

std::string address_of(const SenderTarget& target) {
  return to_string(control::Host{target.host, target.port});
}

session::CoordinatorConfig session_config(const SenderConfig& config, session::SessionId id) {
  session::CoordinatorConfig session{.session = id, .timing = {}};
  session.job_bytes = config.job.shape.size;
  session.finds_stragglers = config.auto_paths.has_value();
  session.has_slow_uplinks = config.auto_paths && relay::has_slow_uplinks(*config.auto_paths);
  session.timing.commit_timeout = session.timing.commit_timeout + time_to_sync(config.job.shape.size);
  session.timing.connect_timeout = config.connect_within + kCauseWithin;
  session.timing.greet_timeout = config.connect_within;
  session.timing.suspect_after = config.wishes.suspect_after;
  session.timing.heartbeat_interval =
      std::min(session.timing.heartbeat_interval, config.wishes.suspect_after / 6);
  session.timing.probe_timeout = std::max(session.timing.probe_timeout, config.wishes.suspect_after / 2);
  return session;
}

std::vector<session::ParticipantSpec> specs(const SenderConfig& config) {
  const auto job = encode(config.job);
  std::vector<session::ParticipantSpec> all{
      {.member = session::kRoot, .name = "the sender", .address = {}, .job = {}}};
  for (const auto& target : config.targets) {
    const session::MemberId id{static_cast<std::uint32_t>(all.size())};
    all.push_back({.member = id, .name = target.name, .address = address_of(target), .job = job});
  }
  return all;
}

std::vector<std::string> names(const SenderConfig& config) {
  std::vector<std::string> all;
  for (const auto& target : config.targets) all.push_back(target.name);
  return all;
}

/// Removes the address of the peer from the beginning of a cause, because reports name the peer separately.
std::string without_prefix(std::string text, std::string_view prefix) {
  if (text.starts_with(prefix)) text.erase(0, prefix.size());
  return text;
}

}  // namespace

Result<std::shared_ptr<Sender>> Sender::start(control::ControlLoop& loop, SourceFile& source,
                                              Reporter& reporter, SenderConfig config,
                                              session::SessionId session, FinishedHandler finished) {
  auto worker = Worker::start();
  if (!worker) return std::unexpected(worker.error());
  std::shared_ptr<Sender> self(
      new Sender(loop, source, reporter, std::move(config), session, std::move(finished)));
  self->worker_ = std::move(*worker);
  loop.post([weak = std::weak_ptr(self)] {
    if (const auto sender = weak.lock()) sender->begin();
  });
  return self;
}

Sender::Sender(control::ControlLoop& loop, SourceFile& source, Reporter& reporter, SenderConfig config,
               session::SessionId session, FinishedHandler finished)
    : loop_(loop),
      source_(source),
      reporter_(reporter),
      config_(std::move(config)),
      finished_(std::move(finished)),
      coordinator_(session_config(config_, session), specs(config_)),
      participant_({.agent = "rdmc_bcast " RDMC_VERSION, .timing = {}}),
      receivers_(config_.targets.size()),
      progress_(names(config_), config_.job.shape.size, monotonic_now()),
      start_(monotonic_now()) {
  result_.statuses.resize(receivers_.size(), session::Status::failed);
  result_.summary.bytes = config_.job.shape.size;
  result_.summary.dry_run = config_.job.dry_run;
}

Sender::~Sender() {
  worker_.reset();
  if (data_plane_) data_plane_->end_now();  // From here on, the store is not used.
}

void Sender::begin() {
  auto peers = peer::Peers::create(loop_, {.security = config_.security});
  if (peers) {
    peers_ = std::move(*peers);
    coordinator_.start(monotonic_now());
  } else {
    give_up(std::move(peers.error()));
  }
  pump();
}

void Sender::handle(const session::ConnectRequested& request) {
  if (request.member != session::kRoot) return connect(value_of(request.member) - 1);
  participant_.on_connected(monotonic_now());
  coordinator_.on_connected(session::kRoot, monotonic_now());
}

void Sender::connect(std::size_t index) {
  const auto& target = config_.targets[index];
  receivers_[index].opening =
      peers_->open(target.host, target.port, config_.connect_within, kService, {},
                   [weak = weak_from_this(), index](Result<control::Channel> channel, const peer::Offer&) {
                     if (const auto self = weak.lock()) self->on_connected(index, std::move(channel));
                   });
}

void Sender::on_connected(std::size_t index, Result<control::Channel> channel) {
  const session::MemberId member{static_cast<std::uint32_t>(index + 1)};
  if (!channel && config_.refused_may_come && channel.error().code == Errc::peer_failed) {
    receivers_[index].again = loop_.after(kAskAgain, [weak = weak_from_this(), index] {
      if (const auto self = weak.lock()) self->connect(index);
    });
    return;  // The session's connect timeout limits these attempts.
  }
  if (!channel) {
    coordinator_.on_closed(member, channel.error(), monotonic_now());
    return pump();
  }
  if (is_named_twice(index, channel->peer())) return pump();
  auto& receiver = receivers_[index];
  receiver.channel.emplace(std::move(*channel));
  receiver.open = true;
  // The other receivers need this address if they must find each other after a failure. They may not know the
  // name that is used here.
  coordinator_.set_address(member, to_string(receiver.channel->peer()));
  receiver.channel->start(
      [weak = weak_from_this(), member](std::vector<std::byte> message) {
        if (const auto self = weak.lock()) {
          self->notice_round_trip(member);
          self->coordinator_.on_message(member, message, monotonic_now());
          self->pump();
        }
      },
      [weak = weak_from_this(), index](const Error& cause) {
        if (const auto self = weak.lock()) self->on_closed(index, cause);
      });
  coordinator_.on_connected(member, monotonic_now());
  pump();
}

/// Returns true if another target has already connected to the same agent. An agent can take the file only
/// once, so the transfer ends before it begins.
bool Sender::is_named_twice(std::size_t index, const Address& peer) {
  const auto [entry, is_new] = connected_.emplace(peer, index);
  if (is_new) return false;
  result_.named_twice = true;
  coordinator_.interrupt({Errc::invalid_argument, fmt::format("{} and {} are one agent, at {}: name it once",
                                                              config_.targets[entry->second].name,
                                                              config_.targets[index].name, to_string(peer))},
                         monotonic_now());
  return true;
}

void Sender::on_closed(std::size_t index, const Error& cause) {
  receivers_[index].open = false;
  notice_absence();
  const auto now = monotonic_now();
  const session::MemberId member{static_cast<std::uint32_t>(index + 1)};
  // If this process was stopped until a short time ago, the receiver has closed the channel because of the
  // sender's silence.
  if (away_ > Duration{} && now < away_until_ + config_.wishes.suspect_after) {
    coordinator_.on_closed(
        member,
        {Errc::peer_failed, fmt::format("this sender was stopped for {} and the receivers went on without it",
                                        duration_words(away_.seconds()))},
        now);
  } else {
    coordinator_.on_closed(member, cause, now);
  }
  pump();
}

/// Notices that this process was stopped for longer than its receivers wait for it. The sign is a timer that
/// is late by at least this time.
void Sender::notice_absence() {
  const auto now = monotonic_now();
  if (timer_at_ == Time::never() || now - timer_at_ <= config_.wishes.suspect_after) return;
  away_ = now - timer_at_;
  away_until_ = now;
}

void Sender::stop(Error cause) {
  give_up(std::move(cause));
  pump();
}

void Sender::give_up(Error cause) {
  coordinator_.interrupt(std::move(cause), monotonic_now());
}

void Sender::pump() {
  if (pumping_) return;
  const auto self = shared_from_this();  // This keeps the object alive, because an output may release it.
  pumping_ = true;
  while (true) {
    if (auto led = coordinator_.poll())
      std::visit([&](auto& value) { handle(value); }, *led);
    else if (auto own = participant_.poll())
      std::visit([&](auto& value) { handle_own(value); }, *own);
    else
      break;
  }
  pumping_ = false;
  if (!job_finished_ && !config_.job.dry_run) {
    if (const auto event = progress_.due(monotonic_now())) reporter_.progress(*event);
  }
  arm_timer();
  finish_if_done();
}

void Sender::arm_timer() {
  const auto deadline = std::min(coordinator_.next_deadline(), participant_.next_deadline());
  if (deadline >= timer_at_) return;  // A timer that fires too early does no harm: it is set again.
  timer_at_ = deadline;
  timer_ = loop_.after(std::max(deadline - monotonic_now(), Duration{}), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->notice_absence();
      self->timer_at_ = Time::never();
      self->coordinator_.on_timer(monotonic_now());
      self->participant_.on_timer(monotonic_now());
      self->pump();
    }
  });
}

void Sender::handle(session::Send& send) {
  if (send.member == session::kRoot) return participant_.on_message(send.bytes, monotonic_now());
  auto& channel = receiver(send.member).channel;
  const auto sent = channel->send(std::move(send.bytes));
  if (sent || sent.error().code != Errc::would_block) return;  // A closed channel reports its end by itself.
  // The receiver has not read for so long that the channel accepts no more data. The receiver is treated as
  // lost.
  loop_.post([weak = weak_from_this(), member = send.member, cause = sent.error()] {
    if (const auto self = weak.lock()) {
      self->coordinator_.on_closed(member, cause, monotonic_now());
      self->pump();
    }
  });
}

void Sender::handle(const session::CloseChannel& close) {
  if (close.member == session::kRoot)
    return participant_.on_closed({Errc::cancelled, "is done"}, monotonic_now());
  auto& closing = receiver(close.member);
  closing.opening = {};
  closing.again = {};
  if (closing.channel) closing.channel->close();
}

void Sender::handle(const session::Progressed& progressed) {
  receiver(progressed.member).bytes = progressed.bytes_done;
  progress_.has(value_of(progressed.member) - 1, progressed.bytes_done);
}

void Sender::handle(const session::DeliveryReported& report) {
  receiver(report.member).bytes = config_.job.shape.size;
  progress_.has(value_of(report.member) - 1, config_.job.shape.size);
}

void Sender::handle(session::MemberFinished& finished) {
  if (finished.member == session::kRoot) return;
  const auto index = value_of(finished.member) - 1;
  const auto& gone = receivers_[index];
  ReceiverEvent event{.host = config_.targets[index].name,
                      .status = finished.status,
                      .bytes = gone.bytes,
                      .seconds = (monotonic_now() - start_).seconds()};
  if (gone.accepted) event.status = session::Status::ok;  // A dry run ends before anything is sent.
  if (event.status == session::Status::ok) {
    if (digest_) event.digest = to_hex(*digest_);
    progress_.done(index);
  } else {
    event.cause = without_prefix(std::move(finished.cause.what), address_of(config_.targets[index]) + ": ");
    progress_.failed(index);
  }
  result_.statuses[index] = event.status;
  result_.summary.count(event.status);
  // The summary has the time of the last receiver that succeeded. Later failures of other receivers do not
  // change it.
  if (event.status == session::Status::ok || result_.summary.ok == 0) result_.summary.seconds = event.seconds;
  reporter_.receiver(event);
}

void Sender::handle(session::JobFinished& finished) {
  job_finished_ = true;
  if (!dry_run_over_) result_.interrupted = std::move(finished.interrupted);
  for (auto& receiver : receivers_) {
    receiver.opening = {};
    receiver.again = {};
    if (receiver.channel) receiver.channel->close();
  }
  last_words_ = loop_.after(kLastWords, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->last_words_over_ = true;
      self->finish_if_done();
    }
  });
  tear_down([weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->cleaned_up_ = true;
      self->finish_if_done();
    }
  });
}

bool Sender::awaits_goodbye() const {
  for (std::size_t index = 0; index < receivers_.size(); ++index) {
    const bool failed = result_.statuses[index] != session::Status::ok;
    if (receivers_[index].open && !(failed && last_words_over_)) return true;
  }
  return false;
}

void Sender::finish_if_done() {
  if (!cleaned_up_ || !finished_ || awaits_goodbye()) return;
  auto finished = std::exchange(finished_, nullptr);
  finished(std::move(result_));
}

}  // namespace rdmc::bcast

#include "apps/sim/sim_receiver.hpp"

#include "controlplane/session/takeover.hpp"

namespace rdmc::sim_app {

SimReceiver::SimReceiver(sim::Network& network, sim::HostId host, const HostOptions& options,
                         bcast::FileShape shape, const DiskOptions& disk, std::uint64_t ring_slots,
                         SimNewCoordinator::Connect to_survivor)
    : SimHost(network, host, options),
      options_(options),
      to_survivor_(std::move(to_survivor)),
      file_(shape, disk),
      ring_slots_(ring_slots),
      participant_({.agent = "rdmc_sim", .timing = {}}) {}

void SimReceiver::run(Time now) {
  now_ = now;
  if (!control_) return;
  if (!std::exchange(greeted_, true)) participant_.on_connected(now);
  serve_pending_connections();
  if (!follows_own_) {
    for (const auto& message : control_->receive()) participant_.on_message(message, now);
    if (control_->has_just_ended()) participant_.on_closed({Errc::peer_failed, "end of stream"}, now);
  }
  if (new_coordinator_) new_coordinator_->run(now);
  if (participant_.next_deadline() <= now) participant_.on_timer(now);
  drain();
  if (sink_) sink_->set_now(now);
  engine_.poll(now);
  participant_.progress(file_.held().count() * file_.shape().block_size, now);
  tell_lag(participant_, now);
  drain();
}

Time SimReceiver::next_deadline() {
  const Time data = std::min(data_deadline(), sink_ ? sink_->next_deadline() : Time::never());
  const Time led = new_coordinator_ ? new_coordinator_->next_deadline() : Time::never();
  return std::min({data, led, participant_.next_deadline()});
}

void SimReceiver::drain() {
  do {
    while (auto output = participant_.poll()) handle(*output);
  } while (pass_own());
}

/// Passes the messages of the new coordinator of this process to the participant of the same process. Returns
/// false if there were no messages.
bool SimReceiver::pass_own() {
  if (!new_coordinator_) return false;
  const auto messages = new_coordinator_->take_own();
  for (const auto& message : messages) {
    if (!follows_own_) break;
    if (message)
      participant_.on_message(*message, now_);
    else
      participant_.on_closed({Errc::peer_failed, "closed its channel"}, now_);
  }
  return !messages.empty();
}

void SimReceiver::serve_pending_connections() {
  for (auto count = pending_.size(); count > 0; --count) {
    ControlEnd pending = std::move(pending_.front());
    pending_.pop_front();
    const auto messages = pending.receive();
    if (messages.empty()) {
      if (!pending.has_just_ended()) pending_.push_back(std::move(pending));
      continue;
    }
    const auto takeover = session::takeover_of(messages.front());
    if (!takeover || !follow(takeover->leader)) {
      if (!participant_.finished()) pending.send(session::takeover_refusal());
      pending.close();
      continue;
    }
    control_.emplace(std::move(pending));
    follows_own_ = false;
    participant_.on_connected(now_);
    for (const auto& message : messages) participant_.on_message(message, now_);
  }
}

bool SimReceiver::follow(session::MemberId leader) {
  if (new_coordinator_ && new_coordinator_->stands_down_for(leader)) {
    new_coordinator_->stand_down();
    new_coordinator_.reset();
    participant_.on_closed({Errc::peer_failed, "stood down"}, now_);
  }
  return participant_.is_orphan();
}

void SimReceiver::stop_data() {
  in_epoch_ = false;
  running_.reset();
  data_plane_.end();
  if (sink_) twice_ = twice_ || sink_->delivered_twice();
  sink_.reset();
  source_.reset();
}

std::optional<session::Bytes> SimReceiver::report() const {
  if (!file_.held().is_full()) return std::nullopt;
  return digest_report(file_.bytes());
}

void SimReceiver::on_delivered(Epoch epoch) {
  if (is_source_) return;
  auto whole = report();
  if (!whole) return participant_.complete(epoch, now_);
  if (!delivered_at_) delivered_at_ = now_;
  participant_.delivered(epoch, std::move(*whole), now_);
}

void SimReceiver::on_failed(Epoch epoch, std::optional<Rank> peer, const Error& error) {
  if (peer) {
    participant_.suspect(epoch, *peer, error.what, now_);
  } else {
    participant_.fail(error, now_);
  }
}

void SimReceiver::handle(const session::ParticipantOutput& output) {
  using namespace session;
  if (const auto* send = std::get_if<Send>(&output)) {
    if (follows_own_)
      new_coordinator_->from_own(send->bytes, now_);
    else
      control_->send(send->bytes);
  } else if (std::get_if<CloseChannel>(&output)) {
    if (follows_own_)
      new_coordinator_->own_closed(now_);
    else
      control_->close();
  } else if (std::get_if<JobOffered>(&output)) {
    participant_.accept(file_.held().encode(), now_);
  } else if (const auto* form = std::get_if<FormRequested>(&output)) {
    auto parameters = decode_epoch(form->parameters, file_.shape().blocks());
    if (!parameters) return participant_.fail(parameters.error(), now_);
    message_ = std::move(parameters->second);
    is_source_ = form->rank == kRootRank;
    in_epoch_ = formed_ = true;
    const auto blobs = data_plane_.form(form->epoch, form->rank, parameters->first);
    if (!blobs) return participant_.fail(blobs.error(), now_);
    participant_.blobs_made(form->epoch, *blobs, now_);
  } else if (const auto* peers = std::get_if<PeersReady>(&output)) {
    if (auto connected = data_plane_.connect(peers->blobs); !connected)
      return participant_.fail(connected.error(), now_);
    participant_.connected(peers->epoch, now_);
  } else if (const auto* start = std::get_if<StartData>(&output)) {
    running_ = start->epoch;
    const auto slots = std::min(ring_slots_, message_->count());
    if (is_source_)
      source_ = std::make_unique<SimSource>(file_.bytes(), file_.shape(), *message_, slots, nullptr);
    else
      sink_ = std::make_unique<SimSink>(file_, *message_, slots);
    group::Store& store = is_source_ ? static_cast<group::Store&>(*source_) : *sink_;
    if (auto started = data_plane_.start(store); !started) participant_.fail(started.error(), now_);
  } else if (const auto* end = std::get_if<EndData>(&output)) {
    stop_data();
    ended_.emplace_back(end->epoch, now_);
    participant_.ended_state(end->epoch, file_.held().encode(), report(), now_);
  } else if (std::get_if<CommitRequested>(&output)) {
    committed_at_ = now_;
    participant_.committed({}, now_);
  } else if (const auto* request = std::get_if<LeadRequested>(&output)) {
    ++led_;
    new_coordinator_ =
        std::make_unique<SimNewCoordinator>(*request, file_.shape(), options_, to_survivor_, now_);
    follows_own_ = true;
    participant_.on_connected(now_);
  } else if (std::get_if<AbortRequested>(&output)) {
    stop_data();
    participant_.abort_done(now_);
  } else if (const auto* finished = std::get_if<Finished>(&output)) {
    stop_data();
    outcome_ = finished->status;
    cause_ = finished->cause;
  }
}

}  // namespace rdmc::sim_app

#include "apps/sim/sim_receiver.hpp"

#include <xxhash.h>

namespace rdmc::sim_app {

SimReceiver::SimReceiver(sim::Network& network, sim::HostId host, const HostOptions& options,
                         bcast::FileShape shape, const DiskOptions& disk, std::uint64_t ring_slots)
    : SimHost(network, host, options),
      file_(shape, disk),
      ring_slots_(ring_slots),
      participant_({.agent = "rdmc_sim", .timing = {}}) {}

void SimReceiver::run(Time now) {
  now_ = now;
  if (!control_) return;
  if (!std::exchange(greeted_, true)) participant_.on_connected(now);
  for (const auto& message : control_->receive()) participant_.on_message(message, now);
  if (control_->has_just_ended()) participant_.on_closed({Errc::peer_failed, "end of stream"}, now);
  if (participant_.next_deadline() <= now) participant_.on_timer(now);
  drain();
  if (sink_) sink_->set_now(now);
  engine_.poll(now);
  participant_.progress(file_.held().count() * file_.shape().block_size, now);
  drain();
}

Time SimReceiver::next_deadline() {
  const Time data = std::min(data_deadline(), sink_ ? sink_->next_deadline() : Time::never());
  return std::min(data, participant_.next_deadline());
}

void SimReceiver::drain() {
  while (auto output = participant_.poll()) handle(*output);
}

void SimReceiver::stop_data() {
  data_plane_.end();
  if (sink_) twice_ = twice_ || sink_->delivered_twice();
  sink_.reset();
}

void SimReceiver::on_delivered(Epoch epoch) {
  if (!file_.held().is_full()) return;
  if (!delivered_at_) delivered_at_ = now_;
  const std::uint64_t digest = XXH3_64bits(file_.bytes().data(), file_.bytes().size());
  session::Bytes report(8);
  store_be(report.data(), digest);
  participant_.delivered(epoch, std::move(report), now_);
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
    control_->send(send->bytes);
  } else if (std::get_if<CloseChannel>(&output)) {
    control_->close();
  } else if (std::get_if<JobOffered>(&output)) {
    participant_.accept(file_.held().encode(), now_);
  } else if (const auto* form = std::get_if<FormRequested>(&output)) {
    auto parameters = decode_epoch(form->parameters, file_.shape().blocks());
    if (!parameters) return participant_.fail(parameters.error(), now_);
    message_ = std::move(parameters->second);
    const auto blobs = data_plane_.form(form->epoch, form->rank, parameters->first);
    if (!blobs) return participant_.fail(blobs.error(), now_);
    participant_.local_blobs(form->epoch, *blobs, now_);
  } else if (const auto* peers = std::get_if<PeersReady>(&output)) {
    if (auto connected = data_plane_.connect(peers->blobs); !connected)
      return participant_.fail(connected.error(), now_);
    participant_.local_ready(peers->epoch, now_);
  } else if (std::get_if<StartData>(&output)) {
    sink_ = std::make_unique<SimSink>(file_, *message_, std::min(ring_slots_, message_->count()));
    if (auto started = data_plane_.start(*sink_); !started) participant_.fail(started.error(), now_);
  } else if (const auto* end = std::get_if<EndData>(&output)) {
    stop_data();
    ended_.emplace_back(end->epoch, now_);
    participant_.ended_state(end->epoch, file_.held().encode(), now_);
  } else if (std::get_if<CommitRequested>(&output)) {
    committed_ = true;
    participant_.committed({}, now_);
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

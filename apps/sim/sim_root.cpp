#include "apps/sim/sim_root.hpp"

namespace rdmc::sim_app {
namespace {

std::vector<session::ParticipantSpec> specs(std::uint32_t receivers) {
  std::vector<session::ParticipantSpec> result{
      {.member = session::kRoot, .name = "root", .address = "", .job = {}}};
  for (std::uint32_t i = 1; i <= receivers; ++i) {
    result.push_back(
        {.member = session::MemberId{i}, .name = "member-" + std::to_string(i), .address = "", .job = {}});
  }
  return result;
}

}  // namespace

SimRoot::SimRoot(sim::Network& network, sim::HostId host, const HostOptions& options,
                 std::vector<std::byte> source, bcast::FileShape shape, std::uint32_t receivers,
                 std::uint64_t ring_slots)
    : SimHost(network, host, options),
      options_(options),
      source_(std::move(source)),
      shape_(shape),
      ring_slots_(ring_slots),
      coordinator_({.session = {},
                    .timing = {},
                    // Progress is reported in whole blocks.
                    .job_bytes = shape.size + shape.block_size,
                    .finds_stragglers = options.finds_stragglers,
                    .has_slow_uplinks = options.has_slow_uplinks},
                   specs(receivers)),
      participant_({.agent = "rdmc_sim", .timing = {}}) {}

void SimRoot::run(Time now) {
  now_ = now;
  if (controls_.empty()) return;
  if (!std::exchange(started_, true)) {
    coordinator_.start(now);
    drain();
  }
  for (auto& [member, end] : controls_) {
    for (const auto& message : end.receive()) {
      if (const auto asked = asked_at_.find(member); asked != asked_at_.end()) {
        coordinator_.set_round_trip(member, now - asked->second);
        asked_at_.erase(asked);
      }
      coordinator_.on_message(member, message, now);
    }
    if (end.has_just_ended()) coordinator_.on_closed(member, {Errc::peer_failed, "end of stream"}, now);
  }
  if (coordinator_.next_deadline() <= now) coordinator_.on_timer(now);
  if (participant_.next_deadline() <= now) participant_.on_timer(now);
  drain();
  engine_.poll(now);
  tell_lag(participant_, now);
  drain();
}

Time SimRoot::next_deadline() {
  return std::min({data_deadline(), coordinator_.next_deadline(), participant_.next_deadline()});
}

void SimRoot::drain() {
  while (true) {
    if (auto led = coordinator_.poll())
      handle(*led);
    else if (auto own = participant_.poll())
      handle(*own);
    else
      break;
  }
}

void SimRoot::on_failed(Epoch epoch, std::optional<Rank> peer, const Error& error) {
  if (peer) {
    participant_.suspect(epoch, *peer, error.what, now_);
  } else {
    coordinator_.interrupt(error, now_);
  }
}

// Chooses the epoch's parameters. The message of the epoch is the sequence of the blocks that some survivor
// lacks.
void SimRoot::choose(session::ParametersNeeded needed) {
  std::erase_if(needed.candidates, [](const auto& candidate) { return !candidate.lacks; });
  const auto stragglers = bcast::take_stragglers(needed.candidates);
  bcast::BlockMap lacking(shape_.blocks());
  std::vector<session::MemberId> members{session::kRoot};
  for (const auto& candidate : needed.candidates) {
    members.push_back(candidate.member);
    const auto held = bcast::BlockMap::decode(candidate.state, shape_.blocks());
    lacking = lacking | (held ? held->complement() : bcast::BlockMap::full(shape_.blocks()));
  }
  // If each member has every block, perhaps only the message that reports this was lost. One block is then
  // sent again.
  if (lacking.count() == 0) lacking.insert(shape_.blocks() - 1);
  auto ranking = bcast::rank_by_rack(members, options_.racks);
  if (!stragglers.empty()) ranking = bcast::with_stragglers(std::move(ranking), stragglers);
  const auto plan =
      plan_epoch(ranking, shape_, lacking, options_, static_cast<std::uint32_t>(stragglers.size()));
  blocks_planned_ += lacking.count();
  coordinator_.form(needed.epoch, encode_epoch(plan, lacking), now_, session::kRoot, ranking.members);
}

void SimRoot::handle(session::CoordinatorOutput& output) {
  using namespace session;
  if (const auto* send = std::get_if<Send>(&output)) {
    if (send->member == kRoot)
      participant_.on_message(send->bytes, now_);
    else
      controls_.at(send->member).send(send->bytes);
  } else if (const auto* close = std::get_if<CloseChannel>(&output)) {
    if (close->member == kRoot)
      participant_.on_closed({Errc::peer_failed, "closed its channel"}, now_);
    else
      controls_.at(close->member).close();
  } else if (const auto* connect = std::get_if<ConnectRequested>(&output)) {
    if (connect->member == kRoot) participant_.on_connected(now_);
    if (connect->member != kRoot) asked_at_[connect->member] = now_;
    coordinator_.on_connected(connect->member, now_);
  } else if (const auto* needed = std::get_if<ParametersNeeded>(&output)) {
    choose(*needed);
  } else if (auto* member = std::get_if<MemberFinished>(&output)) {
    outcomes_.emplace(member->member, std::pair(member->status, member->cause));
  } else if (std::get_if<JobFinished>(&output)) {
    data_plane_.end();
    finished_ = true;
  }
}

void SimRoot::handle(session::ParticipantOutput& output) {
  using namespace session;
  if (const auto* send = std::get_if<Send>(&output)) {
    coordinator_.on_message(kRoot, send->bytes, now_);
  } else if (std::get_if<CloseChannel>(&output)) {
    coordinator_.on_closed(kRoot, {Errc::peer_failed, "closed its channel"}, now_);
  } else if (std::get_if<JobOffered>(&output)) {
    participant_.accept_whole(now_);
  } else if (const auto* form = std::get_if<FormRequested>(&output)) {
    auto parameters = decode_epoch(form->parameters, shape_.blocks());
    message_ = std::move(parameters->second);
    const auto blobs = data_plane_.form(form->epoch, form->rank, parameters->first);
    if (!blobs) return coordinator_.interrupt(blobs.error(), now_);
    participant_.blobs_made(form->epoch, *blobs, now_);
  } else if (const auto* peers = std::get_if<PeersReady>(&output)) {
    if (auto connected = data_plane_.connect(peers->blobs); !connected)
      return coordinator_.interrupt(connected.error(), now_);
    participant_.connected(peers->epoch, now_);
  } else if (std::get_if<StartData>(&output)) {
    if (!sent_at_) sent_at_ = now_;
    running_ = std::get<StartData>(output).epoch;
    store_ =
        std::make_unique<SimSource>(source_, shape_, *message_, std::min(ring_slots_, message_->count()),
                                    [this] { coordinator_.expect_report(digest_report(source_), now_); });
    if (auto started = data_plane_.start(*store_); !started) coordinator_.interrupt(started.error(), now_);
  } else if (const auto* end = std::get_if<EndData>(&output)) {
    running_.reset();
    data_plane_.end();
    store_.reset();
    participant_.ended_state(end->epoch, {}, {}, now_);
  }
}

}  // namespace rdmc::sim_app

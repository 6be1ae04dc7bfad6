#include "apps/bcast-cli/data_plane.hpp"

#include <algorithm>

namespace rdmc::bcast {
namespace {

/// A data link is given up when it is silent for this number of times `suspect_after`. A dead host is found
/// sooner, by the heartbeats of the control connection. On an overloaded path a data link may lose all
/// packets for some seconds although both hosts are alive. Only a broken path between two living hosts is
/// found later than a dead host.
constexpr int kPatience = 4;

/// Sets the retries. A link is given up after retry_limit + 1 ack timeouts. There are at most 255 of them, so
/// the ack timeout is about 67 ms unless `patience` is longer than 17 s.
void set_patience(fabric::QueuePairOptions& options, Duration patience) {
  constexpr Duration kAckTimeout = milliseconds(67);
  const auto tries = std::clamp<std::int64_t>(patience.ns / kAckTimeout.ns, 8, 255);
  options.retry_limit = static_cast<std::uint8_t>(tries - 1);
  options.ack_timeout = patience / tries;
}

}  // namespace

Result<std::vector<session::PeerBlob>> DataPlane::form(Epoch epoch, Rank rank, const EpochPlan& plan) {
  end();
  epoch_ = epoch;
  rank_ = rank;
  plan_ = plan;
  group::PeersConfig links{.link = {.queue_pair = {.selective_repeat = plan.selective_repeat}}};
  set_patience(links.link.queue_pair, plan.suspect_after * kPatience);
  peers_ = std::make_unique<group::Peers>(fabric_, links);
  engine_.add(*this);
  group::GroupConfig config{.name = {.epoch = value_of(epoch)},
                            .rank = rank,
                            .algorithm = plan.algorithm,
                            .racks = plan.racks,
                            .block_bytes = plan.block_bytes,
                            .max_writes_in_flight = plan.writes_in_flight,
                            .stragglers = plan.stragglers,
                            .announce_lengths = false,
                            .tells_end = false};
  config.members.resize(plan.members);
  for (std::uint32_t i = 0; i < plan.members; ++i) config.members[i] = group::PeerId{i};
  auto group = group::Group::create(*peers_, config, *this);
  if (!group) return std::unexpected(group.error());
  group_ = std::move(*group);
  std::vector<session::PeerBlob> blobs;
  for (const Rank peer : group_->neighbours()) {
    auto blob = peers_->offer(group::PeerId{value_of(peer)});
    if (!blob) return std::unexpected(blob.error());
    blobs.push_back({peer, std::move(*blob)});
  }
  return blobs;
}

Result<void> DataPlane::connect(std::span<const session::PeerBlob> blobs) {
  if (!group_) return fail(Errc::invalid_argument, "no epoch is being formed");
  for (const auto& [peer, blob] : blobs) {
    // Any error in a blob counts as the fault of the member that made the blob. For example, the blob may
    // come from a member that is not a neighbour of this member.
    if (const auto connected = peers_->connect(group::PeerId{value_of(peer)}, blob); !connected)
      return give_up_on(peer, connected.error());
  }
  for (const Rank peer : group_->neighbours()) {
    if (!peers_->is_connected(group::PeerId{value_of(peer)}))
      return give_up_on(peer, {Errc::protocol_error, "it offered no queue pair"});
  }
  return {};
}

Result<void> DataPlane::give_up_on(Rank peer, const Error& error) {
  events_.failed(epoch_, peer, error);
  return fail(Errc::peer_failed, error.what);
}

Result<void> DataPlane::start(group::Store& store) {
  if (!group_) return fail(Errc::invalid_argument, "no epoch is being formed");
  const auto begun = value_of(rank_) == 0 ? group_->send(store, plan_.message_bytes)
                                          : group_->receive(store, plan_.message_bytes);
  if (!begun) return std::unexpected(begun.error());
  has_started_ = true;
  return {};
}

void DataPlane::on_out_of_memory() {
  events_.failed(epoch_, std::nullopt, {Errc::resource_limit, "no memory for the transfer's data"});
}

void DataPlane::end() {
  if (!peers_) return;
  engine_.remove(*this);
  has_started_ = false;
  group_.reset();
  peers_.reset();
}

}  // namespace rdmc::bcast

// One epoch at the sender: the choice of the blocks to send, and the root's four steps, which are form,
// connect, move data and end.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "apps/bcast-cli/sender.hpp"
#include "apps/bcast-cli/topology.hpp"
#include "dataplane/base/address_kind.hpp"
#include "dataplane/base/clock.hpp"

namespace rdmc::bcast {
namespace {

/// Returns the blocks that at least one receiver lacks. If a receiver's state cannot be decoded, all blocks
/// are sent to it.
BlockMap lacking(const session::ParametersNeeded& needed, std::uint64_t blocks) {
  BlockMap held_by_all = BlockMap::full(blocks);
  for (const auto& candidate : needed.candidates)
    held_by_all = held_by_all & BlockMap::decode(candidate.state, blocks).value_or(BlockMap(blocks));
  auto rest = held_by_all.complement().superset(BlockMap::kMaxRanges);
  // All members have all blocks, but the last epoch ended before all reports arrived.
  if (rest.count() == 0) rest.insert(0);
  return rest;
}

}  // namespace

/// Returns an error if two receivers could not reach each other, because they use different address families.
/// The data path of a group has one address family.
std::optional<Error> Sender::mixed_families(const session::ParametersNeeded& needed) const {
  const std::string* reached[2] = {};
  for (const auto& candidate : needed.candidates) {
    const auto index = value_of(candidate.member) - 1;
    if (receivers_[index].channel)
      reached[receivers_[index].channel->peer().ipv6] = &config_.targets[index].name;
  }
  if (reached[0] == nullptr || reached[1] == nullptr) return std::nullopt;
  return Error{Errc::invalid_argument,
               fmt::format("{} is reached over IPv4 and {} over IPv6: send to one address family at a time",
                           *reached[0], *reached[1])};
}

void Sender::handle(session::ParametersNeeded& needed) {
  const auto now = monotonic_now();
  if (needed.candidates.front().member != session::kRoot)
    return give_up({Errc::timed_out, "the sender's own data path did not answer in time"});
  std::erase_if(needed.candidates, [](const auto& candidate) { return !candidate.lacks; });
  if (auto mixed = mixed_families(needed)) return coordinator_.interrupt(std::move(*mixed), now);
  if (config_.job.dry_run) {
    dry_run_over_ = true;
    for (const auto& candidate : needed.candidates) receiver(candidate.member).accepted = true;
    return coordinator_.interrupt({Errc::cancelled, "this was a dry run"}, now);
  }
  const auto stragglers = take_stragglers(needed.candidates);
  epoch_stragglers_ = static_cast<std::uint32_t>(stragglers.size());
  for (const session::MemberId member : stragglers) {
    if (!std::exchange(receiver(member).is_straggler, true))
      reporter_.straggler({.host = config_.targets[value_of(member) - 1].name});
  }
  epoch_blocks_ = lacking(needed, config_.job.shape.blocks());
  auto ranking = rank(needed);
  if (!stragglers.empty()) {
    // Hosts cannot be sites, because a host has no uplink of its own.
    if (racks_are_hosts_) ranking.racks = {};
    ranking = with_stragglers(std::move(ranking), stragglers);
    config_.wishes.algorithm = relay::Algorithm::site_trees;
  } else if (config_.auto_paths) {
    choose_algorithm(ranking.racks, static_cast<std::uint32_t>(ranking.members.size()));
  }
  epoch_racks_ = ranking.racks;
  reporter_.plan({.algorithm = std::string(relay::to_string(config_.wishes.algorithm)),
                  .block_bytes = config_.job.shape.block_size,
                  .receivers = static_cast<std::uint32_t>(ranking.members.size() - 1)});
  coordinator_.form(needed.epoch,
                    encode(EpochParameters{.algorithm = config_.wishes.algorithm,
                                           .racks = ranking.racks,
                                           .stragglers = epoch_stragglers_,
                                           .suspect_after = config_.wishes.suspect_after,
                                           .blocks = epoch_blocks_}),
                    now, session::kRoot, ranking.members);
}

/// Called for each message of a receiver. When the first message has arrived, the kernel has measured the
/// time of a round trip.
void Sender::notice_round_trip(session::MemberId member) {
  auto& receiver = this->receiver(member);
  if (receiver.is_distance_known) return;
  const auto round_trip = receiver.channel->round_trip();
  if (!round_trip) return;
  receiver.is_distance_known = true;
  coordinator_.set_round_trip(member, *round_trip);
  least_round_trip_ = std::min(*round_trip, least_round_trip_.value_or(*round_trip));
}

/// Chooses the algorithm. The time of a hop is assumed to be half of the shortest round trip. An uplink of
/// unknown rate is assumed to be as fast as a link.
void Sender::choose_algorithm(const relay::Racks& racks, std::uint32_t members) {
  relay::PathParameters path = *config_.auto_paths;
  if (least_round_trip_) path.hop_seconds = least_round_trip_->seconds() / 2;
  if (!racks_are_hosts_ && path.uplink_bits_per_second == 0)
    path.uplink_bits_per_second = path.bits_per_second;
  const relay::MessageShape message{.members = members,
                                    .racks = racks,
                                    .bytes = VirtualBlocks(config_.job.shape, epoch_blocks_).size(),
                                    .racks_are_hosts = racks_are_hosts_,
                                    .is_file = true};
  const auto choice =
      relay::choose(message, path, {.algorithm = {}, .block_bytes = config_.job.shape.block_size});
  config_.wishes.algorithm = choice.algorithm;
}

/// Orders the members by host or by rack. If the user named an algorithm, the members are ordered by host if
/// this algorithm is for hosts. With auto, the members are ordered by host if two conditions are true. First,
/// no uplink rate is given. Second, two members share a host, or no racks are given. In all other cases the
/// members are ordered by rack. Hosts follow from the addresses. Racks are those of --topology. Without
/// --topology, the racks follow from the addresses.
Ranking Sender::rank(const session::ParametersNeeded& needed) {
  std::vector<session::MemberId> members{session::kRoot};
  for (const auto& candidate : needed.candidates) members.push_back(candidate.member);
  const auto by_rack = rank_by_rack(members, config_.wishes.racks);
  std::vector<std::pair<session::MemberId, Address>> placed;
  for (const session::MemberId member : by_rack.members)
    placed.emplace_back(member, member == session::kRoot ? data_address().value_or(Address{})
                                                         : receiver(member).channel->peer());
  auto by_host = rank_by_host(placed);
  const bool share_hosts = by_host.racks.all().size() < members.size();
  racks_are_hosts_ = config_.auto_paths ? config_.auto_paths->uplink_bits_per_second == 0 &&
                                              (share_hosts || !by_rack.racks.is_known())
                                        : is_for_hosts(config_.wishes.algorithm);
  if (racks_are_hosts_) return by_host;
  return by_rack.racks.is_known() ? by_rack : rank_by_address(placed);
}

/// Returns this host's address, as the receivers see it. If there are several addresses, one that other hosts
/// can reach is preferred. Among these, the address that the most receivers use is chosen.
Result<Address> Sender::data_address() const {
  std::map<Address, std::size_t> known_to;
  for (const auto& receiver : receivers_) {
    if (!receiver.open) continue;
    auto local = receiver.channel->local();
    local.port = 0;
    ++known_to[local];
  }
  if (known_to.empty()) return fail(Errc::peer_failed, "no receiver is connected");
  const auto worth = [](const auto& entry) { return std::pair(!is_loopback(entry.first), entry.second); };
  return std::ranges::max_element(known_to, {}, worth)->first;
}

/// Opens the data plane on the worker. Opening a port and touching the ring buffer's memory take a moment,
/// and heartbeats must still be sent in this time.
void Sender::open_data_plane(std::move_only_function<void()> then) {
  const auto address = data_address();
  if (!address) return give_up(address.error());
  DataPlane::Events events{.delivered = [](Epoch) {}, .failed = plane_answers().failed()};
  run_for(
      weak_from_this(), *worker_, loop_,
      [&loop = loop_, fabric = config_.fabric, address = *address,
       bytes = ring_bytes(config_.job.shape, *address), events = std::move(events)]() mutable {
        return DataPlaneProxy::open(loop, fabric, address, bytes, std::move(events));
      },
      [then = std::move(then)](Sender& self, Result<std::unique_ptr<DataPlaneProxy>> opened) mutable {
        if (opened) {
          self.data_plane_ = std::move(*opened);
          self.reporter_.fabric({self.data_plane_->fabric_name(), self.data_plane_->choice_reason()});
          then();
        } else {
          self.give_up(std::move(opened.error()));
        }
        self.pump();
      });
}

void Sender::handle(session::FormRequested& request) {
  if (data_plane_) return form(request);
  open_data_plane([weak = weak_from_this(), request = std::move(request)] {
    if (const auto self = weak.lock()) self->form(request);
  });
}

void Sender::form(const session::FormRequested& request) {
  const EpochPlan plan{.algorithm = config_.wishes.algorithm,
                       .members = static_cast<std::uint32_t>(request.members.size()),
                       .racks = epoch_racks_,
                       .stragglers = epoch_stragglers_,
                       .block_bytes = config_.job.shape.block_size,
                       .message_bytes = VirtualBlocks(config_.job.shape, epoch_blocks_).size(),
                       .suspect_after = config_.wishes.suspect_after};
  data_plane_->form(request.epoch, request.rank, plan, plane_answers().to_form(request.epoch));
}

void Sender::handle(session::PeersReady& peers) {
  data_plane_->connect(std::move(peers.blobs), plane_answers().to_connect(peers.epoch));
}

void Sender::handle(const session::StartData& start) {
  auto store = FileSource::start(source_, epoch_blocks_, data_plane_->ring(),
                                 {.limit_rate = config_.job.limit_rate,
                                  .wake = [plane = data_plane_.get()] { plane->wake(); },
                                  .announce =
                                      [weak = weak_from_this(), &loop = loop_](const Digest& digest) {
                                        loop.post([weak, digest] {
                                          if (const auto self = weak.lock()) self->announce(digest);
                                        });
                                      }});
  if (!store) return give_up(std::move(store.error()));
  store_ = std::move(*store);
  data_plane_->start(*store_, [weak = weak_from_this()](Result<void> started) {
    const auto self = weak.lock();
    if (!self || started) return;
    self->give_up(std::move(started.error()));
    self->pump();
  });
  watch_ = DataWatch::start(
      loop_, *data_plane_,
      [weak = weak_from_this(), epoch = start.epoch](const DataPlaneProxy::Standing& standing) {
        const auto self = weak.lock();
        if (!self) return;
        self->participant_.waits(epoch, standing.wait, monotonic_now());
        self->participant_.lags(epoch, standing.lagging, monotonic_now());
        self->pump();
      });
}

void Sender::handle(const session::EndData& end) {
  tear_down([weak = weak_from_this(), epoch = end.epoch] {
    if (const auto self = weak.lock()) {
      self->participant_.ended_state(epoch, {}, {}, monotonic_now());
      self->pump();
    }
  });
}

void Sender::handle_own(session::Send& send) {
  coordinator_.on_message(session::kRoot, send.bytes, monotonic_now());
}

void Sender::handle_own(session::CloseChannel&) {
  coordinator_.on_closed(session::kRoot, {Errc::cancelled, "is done"}, monotonic_now());
}

void Sender::handle_own(session::JobOffered&) {
  participant_.accept_whole(monotonic_now());
}

void Sender::handle_own(session::AbortRequested&) {
  participant_.abort_done(monotonic_now());
}

/// Sends the digest to every receiver before the last block can reach any member. So if the sender dies, the
/// survivors can check that the blocks that they have together are right.
void Sender::announce(const Digest& digest) {
  digest_ = digest;
  coordinator_.expect_report(encode(digest), monotonic_now());
  pump();
  loop_.post([weak = weak_from_this()] {  // This task runs after the loop has written the messages that were
                                          // just sent.
    if (const auto self = weak.lock(); self && self->store_) self->store_->announced();
  });
}

/// Ends the data plane and the reader. Afterwards `then` runs on the loop.
void Sender::tear_down(std::move_only_function<void()> then) {
  watch_.reset();
  auto close_store = [weak = weak_from_this(), then = std::move(then)]() mutable {
    const auto self = weak.lock();
    if (!self) return;
    self->worker_->post([&loop = self->loop_, store = std::move(self->store_),
                         task = std::make_shared<Worker::Task>(std::move(then))]() mutable {
      store.reset();
      post_from_worker(loop, task);
    });
  };
  if (data_plane_)
    data_plane_->end(std::move(close_store));
  else
    close_store();
}

}  // namespace rdmc::bcast

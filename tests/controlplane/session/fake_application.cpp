// The applications of the fake world. A participant's data advances while every member of its epoch is
// running and no link between two members is broken, as in a pipeline. If its data does not advance for a
// long time, the participant suspects its neighbours. Each participant gets the blocks in a different order.
#include <algorithm>
#include <bit>
#include <utility>

#include "tests/controlplane/session/world.hpp"

namespace rdmc::session::test {
namespace {

constexpr Duration kDataTick = milliseconds(20);
constexpr std::byte kGoodDigest{0x60}, kBadDigest{0xBD};

std::set<std::string> names_of(const std::vector<FailedMember>& failed) {
  std::set<std::string> names;
  for (const FailedMember& member : failed) names.insert(member.name);
  return names;
}

std::vector<std::string> names_of(const std::vector<MemberInfo>& members) {
  std::vector<std::string> names;
  for (const MemberInfo& member : members) names.push_back(member.name);
  return names;
}

Bytes to_state(std::uint32_t blocks) {
  return {static_cast<std::byte>(blocks >> 8), static_cast<std::byte>(blocks)};
}

std::uint32_t from_state(const Bytes& state) {
  if (state.size() != 2) return 0;
  return std::to_integer<std::uint32_t>(state[0]) << 8 | std::to_integer<std::uint32_t>(state[1]);
}

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

}  // namespace

void World::answer(std::size_t process, std::function<void()> action) {
  post(process, now_ + microseconds(static_cast<std::int64_t>(random_.between(10, 3000))), std::move(action));
}

void World::answer_leading(std::size_t process, std::function<void(Coordinator&)> action) {
  answer(process, [this, process, lead = processes_[process].lead, action = std::move(action)] {
    Process& self = processes_[process];
    if (self.coordinator && self.lead == lead) action(*self.coordinator);
  });
}

/// Acts as the application of a coordinator. The coordinator runs in the process of the root or of a
/// survivor.
void World::lead(std::size_t process, CoordinatorOutput output) {
  const auto subject = [](MemberId member) { return name_of(value_of(member)); };
  const auto tell = [&](Record told) {
    told.process = process;
    if (process != 0) told.event = "Lead:" + told.event;
    record(std::move(told));
  };
  std::visit(
      Overloaded{
          [&](Send& send_) { send_down(process, value_of(send_.member), std::move(send_.bytes)); },
          [&](CloseChannel& closed) {
            close_down(process, value_of(closed.member), {Errc::peer_failed, "closed its control channel"});
          },
          [&](ConnectRequested& connect_) { connect(process, value_of(connect_.member)); },
          [&](ParametersNeeded& needed) {
            tell({.event = "ParametersNeeded", .epoch = needed.epoch});
            choose(process, needed);
          },
          [&](Progressed&) { tell({.event = "Progressed"}); },
          [&](DeliveryReported& report) {
            tell({.event = "DeliveryReported", .epoch = report.epoch, .subject = subject(report.member)});
          },
          [&](MemberFinished& finished) {
            tell({.event = "MemberFinished",
                  .status = finished.status,
                  .cause = finished.cause,
                  .subject = subject(finished.member)});
          },
          [&](JobFinished&) { tell({.event = "JobFinished"}); },
      },
      output);
}

/// Chooses the source of an epoch. If the coordinator is the root, it is the source of all blocks. A new
/// coordinator chooses the member that has most of the missing blocks.
void World::choose(std::size_t process, const ParametersNeeded& needed) {
  if (process == 0) {
    return answer_leading(0, [this, needed](Coordinator& coordinator) {
      if (needed.candidates.front().member == kRoot)
        coordinator.form(needed.epoch, to_state(kWhole), now_, kRoot, options_.order);
      else
        coordinator.interrupt({Errc::peer_failed, "the root is lost to itself"}, now_);
    });
  }
  std::uint32_t lacking = 0, held = 0, most = 0;
  MemberId source{};
  for (const auto& candidate : needed.candidates)
    if (candidate.lacks) lacking |= ~from_state(candidate.state) & kWhole;
  for (const auto& candidate : needed.candidates) {
    const std::uint32_t useful = from_state(candidate.state) & lacking;
    held |= useful;
    if (std::popcount(useful) > std::popcount(most)) most = useful, source = candidate.member;
  }
  answer_leading(process, [=, this, epoch = needed.epoch](Coordinator& coordinator) {
    if (held != lacking)
      coordinator.interrupt({Errc::peer_failed, "nobody alive holds some blocks"}, now_);
    else if (!coordinator.expected_report())
      coordinator.interrupt({Errc::peer_failed, "nobody alive knows the digest"}, now_);
    else
      coordinator.form(epoch, to_state(most), now_, source);
  });
}

void World::connect(std::size_t upper, std::size_t lower) {
  const bool takes_over = upper != 0;
  if (takes_over && is_cut(upper, lower)) return;
  // A new coordinator has had the channel to its own participant since it became the coordinator.
  if (takes_over && upper == lower) {
    return answer_leading(
        upper, [this, lower](Coordinator& coordinator) { coordinator.on_connected(MemberId(lower), now_); });
  }
  if (!processes_[lower].alive) {
    return answer_leading(upper, [this, lower](Coordinator& coordinator) {
      coordinator.on_closed(MemberId(lower), processes_[lower].refusal, now_);
    });
  }
  post(lower, arrival(link(upper, lower).down_last), [=, this, lead = processes_[upper].lead] {
    if (takes_over && (processes_[upper].lead != lead || !processes_[upper].alive)) return;
    open(upper, lower);
    if (!takes_over) processes_[lower].participant->on_connected(now_);
    answer_leading(
        upper, [this, lower](Coordinator& coordinator) { coordinator.on_connected(MemberId(lower), now_); });
  });
}

void World::handle(std::size_t process, ParticipantOutput output) {
  Process& self = processes_[process];
  Participant& machine = *self.participant;
  const auto tell = [&](Record told) {
    told.process = process;
    const std::string event = told.event;
    record(std::move(told));
    if (self.behaviour.mute_from == event) self.mute = true;
    if (self.behaviour.fails_at == event) {
      self.mute = true;
      answer(process, [this, &machine] { machine.fail({Errc::no_space, "disk full"}, now_); });
    }
  };
  const auto respond = [&](std::function<void()> action) {
    if (!self.mute) answer(process, std::move(action));
  };
  std::visit(
      Overloaded{
          [&](Send& send_) { send_up(process, self.follows, std::move(send_.bytes)); },
          [&](CloseChannel&) {
            close_up(process, self.follows, {Errc::peer_failed, "closed its control channel"});
          },
          [&](JobOffered&) {
            tell({.event = "JobOffered"});
            respond([this, process, &self, &machine] {
              if (process == 0)
                machine.accept_whole(now_);
              else
                machine.accept(to_state(self.held), now_);
            });
          },
          [&](FormRequested& form) {
            self.members = names_of(form.members);
            self.rank = form.rank;
            self.is_source = form.rank == kRootRank;
            self.sent = from_state(form.parameters);
            self.whole_epoch = false;
            if (self.is_source && (self.sent & ~self.held) != 0) tell({.event = "BadSource"});
            tell({.event = "FormRequested", .epoch = form.epoch, .members = self.members});
            respond(
                [this, &machine, form] { machine.blobs_made(form.epoch, blobs_for_neighbours(form), now_); });
          },
          [&](PeersReady& peers) {
            tell({.event = "PeersReady", .epoch = peers.epoch, .blobs = well_routed(peers, self.rank)});
            respond([this, &machine, epoch = peers.epoch] { machine.connected(epoch, now_); });
          },
          [&](StartData& start) {
            tell({.event = "StartData", .epoch = start.epoch});
            if (process == 0 && expects_) coordinator().expect_report(Bytes{kGoodDigest}, now_);
            if (!self.mute) start_data(process, start.epoch);
          },
          [&](EndData& end) {
            end_data(process);
            tell({.event = "EndData", .epoch = end.epoch, .failed = names_of(end.failed)});
            respond([this, &self, &machine, epoch = end.epoch] {
              const Bytes digest{self.behaviour.wrong_digest ? kBadDigest : kGoodDigest};
              machine.ended_state(epoch, to_state(self.held),
                                  self.held == kWhole ? std::optional(digest) : std::nullopt, now_);
            });
          },
          [&](AlsoFailed& also) {
            tell({.event = "AlsoFailed", .epoch = also.epoch, .failed = names_of(also.failed)});
          },
          [&](CommitRequested&) {
            tell({.event = "CommitRequested"});
            respond([this, &machine] { machine.committed(Bytes{std::byte{3}}, now_); });
          },
          [&](LeadRequested& request) {
            tell({.event = "LeadRequested"});
            // The root's process has a coordinator from the start.
            if (self.mute || process == 0) return;
            ++self.lead;
            self.coordinator = std::make_unique<Coordinator>(request.config, request.participants);
            self.follows = process;
            open(process, process);
            machine.on_connected(now_);
            answer_leading(process, [this](Coordinator& coordinator) { coordinator.start(now_); });
          },
          [&](AbortRequested&) {
            end_data(process);
            tell({.event = "AbortRequested"});
            respond([this, &machine] { machine.abort_done(now_); });
          },
          [&](Finished& finished) {
            end_data(process);
            tell({.event = "Finished", .status = finished.status, .cause = finished.cause});
          },
      },
      output);
}

void World::start_data(std::size_t process, Epoch epoch) {
  processes_[process].epoch = epoch;
  processes_[process].stalled = {};
  post(process, now_ + kDataTick, [this, process, epoch] { tick_data(process, epoch); });
}

void World::tick_data(std::size_t process, Epoch epoch) {
  Process& self = processes_[process];
  if (self.epoch != epoch) return;
  if (random_.chance(options_.lags_per_million)) {
    const Rank other{static_cast<std::uint32_t>(random_.below(self.members.size()))};
    self.participant->lags(epoch, other == self.rank ? std::vector<Rank>() : std::vector{other}, now_);
  }
  bool flows = true;
  for (const std::string& a : self.members)
    for (const std::string& b : self.members) flows = flows && link_works(index_of(a), index_of(b));
  if (flows) self.stalled = {};
  if (!flows) {
    self.stalled = self.stalled + kDataTick;
    if (self.stalled >= options_.data_patience) suspect_neighbours(process);
  } else if (!self.behaviour.never_progresses) {
    take_blocks(process, epoch);
  }
  post(process, now_ + kDataTick, [this, process, epoch] { tick_data(process, epoch); });
}

void World::take_blocks(std::size_t process, Epoch epoch) {
  Process& self = processes_[process];
  if (self.has_delivered || self.is_source || self.whole_epoch) return;
  self.data_done = self.data_done + kDataTick;
  self.participant->progress(static_cast<std::uint64_t>(self.data_done.ns), now_);
  const auto due = std::min<std::int64_t>(kBlocks, self.data_done.ns * kBlocks / self.data_needed.ns);
  for (std::size_t i = 0; i < kBlocks && std::popcount(self.held) < due; ++i)
    self.held |= self.sent & 1u << (i + process * 5) % kBlocks;
  if (self.held == kWhole) {
    self.has_delivered = true;
    self.participant->delivered(epoch, Bytes{self.behaviour.wrong_digest ? kBadDigest : kGoodDigest}, now_);
  } else if ((self.sent & ~self.held) == 0) {
    self.whole_epoch = true;
    self.participant->complete(epoch, now_);
  }
}

bool World::link_works(std::size_t a, std::size_t b) const {
  return running(a) && running(b) && !broken_links_.contains({std::min(a, b), std::max(a, b)});
}

void World::suspect_neighbours(std::size_t process) {
  Process& self = processes_[process];
  for (std::uint32_t rank = 0; rank < self.members.size(); ++rank) {
    if (Rank{rank} == self.rank || link_works(process, index_of(self.members[rank]))) continue;
    self.participant->suspect(self.epoch, Rank{rank}, "retries exceeded", now_);
  }
}

/// Returns a blob for every other member, because each member connects to every other one. A blob contains
/// the ranks of its sender and its receiver.
std::vector<PeerBlob> World::blobs_for_neighbours(const FormRequested& form) const {
  std::vector<PeerBlob> blobs;
  for (const MemberInfo& member : form.members)
    if (member.rank != form.rank)
      blobs.push_back(
          {member.rank, {static_cast<std::byte>(form.rank), static_cast<std::byte>(member.rank)}});
  return blobs;
}

std::size_t World::well_routed(const PeersReady& peers, Rank to) const {
  return static_cast<std::size_t>(std::ranges::count_if(peers.blobs, [&](const PeerBlob& blob) {
    return blob.blob == Bytes{static_cast<std::byte>(blob.peer), static_cast<std::byte>(to)};
  }));
}

std::size_t World::index_of(const std::string& name) const {
  return name == "root" ? 0 : static_cast<std::size_t>(std::stoul(name.substr(1)));
}

}  // namespace rdmc::session::test

// The applications of the fake world. A participant's data advances while every member of its epoch is
// running and no link between two of them is broken, as in a pipeline; when it stands still for long, it
// suspects its neighbours.
#include <algorithm>
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

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

}  // namespace

void World::answer(std::size_t process, std::function<void()> action) {
  post(process, now_ + microseconds(static_cast<std::int64_t>(random_.between(10, 3000))), std::move(action));
}

void World::handle(CoordinatorOutput output) {
  const auto subject = [](MemberId member) { return name_of(value_of(member)); };
  std::visit(
      Overloaded{
          [&](Send& send_) { send(0, value_of(send_.member), std::move(send_.bytes)); },
          [&](CloseChannel& closed) {
            close(0, value_of(closed.member), {Errc::peer_failed, "closed its control channel"});
          },
          [&](ParametersNeeded& needed) {
            record({.event = "ParametersNeeded", .epoch = needed.epoch});
            answer(0, [this, epoch = needed.epoch] {
              coordinator_->form(epoch, Bytes(5, std::byte{0x50}), now_);
            });
          },
          [&](FormRequested& form) {
            processes_[0].members = names_of(form.members);
            processes_[0].rank = form.rank;
            record({.event = "FormRequested", .epoch = form.epoch, .members = names_of(form.members)});
            answer(0,
                   [this, form] { coordinator_->local_blobs(form.epoch, blobs_for_neighbours(form), now_); });
          },
          [&](PeersReady& peers) {
            record({.event = "PeersReady", .epoch = peers.epoch, .blobs = well_routed(peers, kRootRank)});
            answer(0, [this, epoch = peers.epoch] { coordinator_->local_ready(epoch, now_); });
          },
          [&](StartData& start) {
            record({.event = "StartData", .epoch = start.epoch});
            start_data(0, start.epoch);
          },
          [&](EndData& end) {
            processes_[0].epoch = Epoch{0};
            record({.event = "EndData", .epoch = end.epoch, .failed = names_of(end.failed)});
            answer(0, [this, epoch = end.epoch] { coordinator_->local_ended(epoch, now_); });
          },
          [&](AlsoFailed& also) {
            record({.event = "AlsoFailed", .epoch = also.epoch, .failed = names_of(also.failed)});
          },
          [&](Progressed&) { record({.event = "Progressed"}); },
          [&](DeliveryReported& report) {
            record({.event = "DeliveryReported", .epoch = report.epoch, .subject = subject(report.member)});
            const bool good = report.report == Bytes{kGoodDigest};
            answer(0, [this, member = report.member, good] {
              if (good)
                coordinator_->approve(member, now_);
              else
                coordinator_->deny(member, {Errc::corrupt, "has a different digest"}, now_);
            });
          },
          [&](MemberFinished& finished) {
            record({.event = "MemberFinished",
                    .status = finished.status,
                    .cause = finished.cause,
                    .subject = subject(finished.member)});
          },
          [&](JobFinished&) { record({.event = "JobFinished"}); },
      },
      output);
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
          [&](Send& send_) { send(process, 0, std::move(send_.bytes)); },
          [&](CloseChannel&) {
            close(process, process, {Errc::peer_failed, "closed its control channel"});
          },
          [&](JobOffered&) {
            tell({.event = "JobOffered"});
            respond([this, &self, &machine] {
              if (self.behaviour.refuses)
                machine.refuse({Errc::already_exists, "is not to be replaced"}, now_);
              else
                machine.accept(Bytes{std::byte{1}}, now_);
            });
          },
          [&](FormRequested& form) {
            self.members = names_of(form.members);
            self.rank = form.rank;
            tell({.event = "FormRequested", .epoch = form.epoch, .members = self.members});
            respond([this, &machine, form] {
              machine.local_blobs(form.epoch, blobs_for_neighbours(form), now_);
            });
          },
          [&](PeersReady& peers) {
            tell({.event = "PeersReady", .epoch = peers.epoch, .blobs = well_routed(peers, self.rank)});
            respond([this, &machine, epoch = peers.epoch] { machine.local_ready(epoch, now_); });
          },
          [&](StartData& start) {
            tell({.event = "StartData", .epoch = start.epoch});
            if (!self.mute) start_data(process, start.epoch);
          },
          [&](EndData& end) {
            self.epoch = Epoch{0};
            tell({.event = "EndData", .epoch = end.epoch, .failed = names_of(end.failed)});
            respond([this, &machine, epoch = end.epoch] {
              machine.ended_state(epoch, Bytes{std::byte{2}}, now_);
            });
          },
          [&](AlsoFailed& also) {
            tell({.event = "AlsoFailed", .epoch = also.epoch, .failed = names_of(also.failed)});
          },
          [&](CommitRequested&) {
            tell({.event = "CommitRequested"});
            respond([this, &machine] { machine.committed(Bytes{std::byte{3}}, now_); });
          },
          [&](AbortRequested& abort) {
            self.epoch = Epoch{0};
            tell({.event = abort.coordinator_lost ? "CoordinatorLost" : "AbortRequested",
                  .cause = abort.cause});
            respond([this, &machine] { machine.abort_done(now_); });
          },
          [&](Finished& finished) {
            self.epoch = Epoch{0};
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
  bool flows = true;
  for (const std::string& a : self.members)
    for (const std::string& b : self.members) flows = flows && link_works(index_of(a), index_of(b));
  if (flows) self.stalled = {};
  if (!flows) {
    self.stalled = self.stalled + kDataTick;
    if (self.stalled >= options_.data_patience) suspect_neighbours(process);
  } else if (process != 0 && !self.has_delivered && !self.behaviour.never_progresses) {
    self.data_done = self.data_done + kDataTick;
    self.participant->progress(static_cast<std::uint64_t>(self.data_done.ns), now_);
    if (self.data_done >= self.data_needed) {
      self.has_delivered = true;
      self.participant->delivered(epoch, Bytes{self.behaviour.wrong_digest ? kBadDigest : kGoodDigest}, now_);
    }
  }
  post(process, now_ + kDataTick, [this, process, epoch] { tick_data(process, epoch); });
}

bool World::link_works(std::size_t a, std::size_t b) const {
  return running(a) && running(b) && !broken_links_.contains({std::min(a, b), std::max(a, b)});
}

void World::suspect_neighbours(std::size_t process) {
  Process& self = processes_[process];
  for (std::uint32_t rank = 0; rank < self.members.size(); ++rank) {
    if (Rank{rank} == self.rank || link_works(process, index_of(self.members[rank]))) continue;
    if (process == 0)
      coordinator_->suspect(self.epoch, Rank{rank}, "retries exceeded", now_);
    else
      self.participant->suspect(self.epoch, Rank{rank}, "retries exceeded", now_);
  }
}

/// Everybody connects to everybody; the blob says from whom to whom.
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

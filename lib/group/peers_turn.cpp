// One turn of the link table. It handles what has arrived on every link. Then every group has its turn. At
// the end, the frames that the groups have filled are sent.
#include <algorithm>
#include <array>

#include "lib/group/peers.hpp"

namespace rdmc::group {

std::size_t Peers::work(Time now) {
  now_ = now;
  deliver_early();
  std::size_t done = 0;
  // The loops use an index, because upcalls may make and lose links and groups.
  for (std::size_t i = 0; i < links_.size(); ++i) done += poll(*links_[i].link);
  for (std::uint32_t i = 0; i < parts_end_; ++i) {
    if (parts_[i] != nullptr) done += parts_[i]->work(now);
  }
  while (const auto refused = early_.expire(now)) refuse(*refused);
  while (const auto waits = early_.next_to_tell(now)) {
    Link* const link = find(waits->peer);
    // If there is no space now, the next turn tries again.
    if (link != nullptr && !link->send(waits->name, NotMade{})) break;
    early_.set_told(waits->name);
  }
  done += flush(now);
  lost_.clear();
  return done;
}

std::size_t Peers::poll(Link& link) {
  std::array<fabric::Completion, 64> completions;
  std::size_t done = 0, count = 0;
  do {
    count = link.poll(completions);
    done += count;
    for (const auto& completion : std::span(completions).first(count)) {
      if (!link.is_open()) return done;
      if (auto handled = on_completion(link, completion); !handled) {
        lose(link, handled.error());
        return done;
      }
    }
  } while (count == completions.size());
  if (link.has_failed()) lose(link, {Errc::peer_failed, link.error_cause()});
  return done;
}

Result<void> Peers::on_completion(Link& link, const fabric::Completion& completion) {
  if (completion.status != fabric::WorkStatus::success) return fail(Errc::peer_failed, link.error_cause());
  switch (Link::kind_of(completion.work_id)) {
    case Link::Work::frame: link.frame_done(); return {};
    case Link::Work::write:
      link.write_done();
      if (GroupPart* const part = parts_[Link::group_of(completion.work_id)]) {
        part->on_write_complete(link, Link::message_of(completion.work_id),
                                Link::block_of(completion.work_id));
      }
      return {};
    case Link::Work::receive: break;
  }
  if (completion.kind != fabric::WorkKind::receive_write_immediate)
    return fail(Errc::protocol_error, "a peer has sent a message where it may only write");
  const std::uint16_t slot = relay::slot_id_of(completion.immediate.value_or(0));
  if (slot == Link::kFrameSlot) {
    if (auto handled = on_frame(link, completion); !handled) return handled;
  } else {
    const std::uint32_t index = slot / kSlotsPerGroup;
    GroupPart* const part = index < kMostGroups ? parts_[index] : nullptr;
    if (part == nullptr || !part->uses(link))
      return fail(Errc::protocol_error, "a block of a message that nobody granted");
    part->on_block(link, completion);
  }
  return link.repost(completion.work_id);
}

Result<void> Peers::on_frame(Link& link, const fabric::Completion& completion) {
  const auto records = link.frame(completion);
  if (!records) return std::unexpected(records.error());
  return dispatch(link, *records);
}

Result<void> Peers::dispatch(Link& link, std::span<const std::byte> records) {
  std::optional<GroupName> name;
  for (RecordReader reader(records); !reader.done() && link.is_open();) {
    auto record = reader.next();
    if (!record) return std::unexpected(record.error());
    if (const auto* of = std::get_if<OfGroup>(&*record)) {
      name = of->name;
      continue;
    }
    if (!name) return fail(Errc::protocol_error, "a record that belongs to no group");
    // An upcall may have made a group. Its early records come before this one.
    deliver_early();
    if (GroupPart* const part = find(*name); part == nullptr)
      on_unknown_group(link, *name, *record);
    else if (part->uses(link))
      part->on_record(link, *record);
    else
      return fail(Errc::protocol_error, "a record in a group from somebody who is no neighbour in it");
  }
  return {};
}

void Peers::on_unknown_group(Link& link, const GroupName& name, const Record& record) {
  // A member that has sent an End waits for the answer that this process writes nothing more.
  const auto* const end = std::get_if<End>(&record);
  if (end != nullptr && !end->is_answer) link.send(name, End{.is_answer = true});
  if (early_.is_over(name) || std::holds_alternative<NotMade>(record)) return;
  if (end != nullptr) early_.forget(name, link.peer());
  std::vector<std::byte> bytes(encoded_bytes(record));
  encode(record, bytes);
  if (const auto refused = early_.keep(name, link.peer(), bytes, now_)) refuse(*refused);
}

void Peers::refuse(const EarlyRecords::Refused& refused) {
  for (const PeerId peer : refused.peers) {
    Link* const link = find(peer);
    if (link == nullptr) continue;
    link->send(refused.name,
               End{.is_answer = true, .code = Errc::timed_out, .what = "it made no such group"});
  }
}

void Peers::deliver_early() {
  while (!newcomers_.empty()) {
    const GroupName name = newcomers_.front();
    newcomers_.erase(newcomers_.begin());
    while (auto kept = early_.take(name)) {
      GroupPart* const part = find(name);
      Link* const link = find(kept->peer);
      if (part == nullptr || link == nullptr || !part->uses(*link)) continue;
      const auto record = RecordReader(kept->record).next();
      if (record) part->on_record(*link, *record);
    }
  }
}

std::size_t Peers::flush(Time now) {
  std::size_t done = 0;
  const bool ping = now >= next_keepalive_;
  const auto is_busy = [&](const Link& link) {
    return std::ranges::any_of(parts_.begin(), parts_.begin() + parts_end_, [&](const GroupPart* part) {
      return part != nullptr && part->is_busy() && part->uses(link);
    });
  };
  for (Entry& entry : links_) {
    const bool silent = ping && entry.frames == entry.link->frames_sent() && is_busy(*entry.link);
    const std::uint64_t before = entry.link->frames_sent();
    (void)entry.link->flush_when_due(silent);  // The next poll finds a failed queue pair.
    done += entry.link->frames_sent() - before;
    if (ping) entry.frames = entry.link->frames_sent();
  }
  const bool busy =
      config_.keepalive > Duration{} &&
      std::ranges::any_of(parts_.begin(), parts_.begin() + parts_end_,
                          [](const GroupPart* part) { return part != nullptr && part->is_busy(); });
  if (!busy)
    next_keepalive_ = Time::never();
  else if (ping || next_keepalive_ == Time::never())
    next_keepalive_ = now + config_.keepalive;
  return done;
}

Time Peers::next_deadline() const {
  if (!newcomers_.empty()) return Time{};
  Time earliest = std::min(next_keepalive_, early_.next_deadline());
  for (std::uint32_t i = 0; i < parts_end_; ++i) {
    if (parts_[i] != nullptr) earliest = std::min(earliest, parts_[i]->next_deadline());
  }
  return earliest;
}

}  // namespace rdmc::group

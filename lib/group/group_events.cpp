// The events of a group: completions of its writes, blocks that have arrived, and records of neighbours.
#include <algorithm>

#include "lib/group/group.hpp"

namespace rdmc::group {
/// A peer may name a message that is newer than this member's oldest unfinished message. Returns the limit
/// for the difference between their numbers. A message beyond the limit is a protocol error, so this member
/// need not allocate memory for it. A correct peer keeps the limit for two reasons:
///   - Each member works on at most kMessagesInFlight messages. So the oldest unfinished message of this
///     member's first source is at most kMessagesInFlight ahead of this member's own. The same is true for
///     each hop to the root.
///   - Another member may grant kMessagesInFlight messages beyond those that the root works on.
/// With some algorithms, the first source depends on the length, so each message can have another first
/// source. Then only the following is certain: while some members have finished a message and others have
/// not, a member that has finished it has sent a block to a member that still works on it. So among members
/// in the order of their progress, each member is at most kMessagesInFlight ahead of the next one.
std::uint64_t Group::most_large_ahead() const {
  const auto members = static_cast<std::uint32_t>(config_.members.size());
  std::uint64_t hops = 0;
  for (const relay::Algorithm algorithm : algorithms_)
    hops =
        std::max(hops, first_source_needs_length(algorithm) ? members : relay::most_hops(algorithm, members));
  return kMessagesInFlight * (hops + 2);
}

void Group::on_write_complete(Link& link, std::uint64_t message_low_bits, std::uint64_t block) {
  Edge& edge = *find(link);
  --edge.writes;
  if (Message* const message = find_by_low_bits(message_low_bits, Link::kMessageMask))
    message->relay.on_write_complete(edge.rank, block);
}

void Group::on_record(Link& link, const Record& record) {
  Edge& edge = *find(link);
  if (const auto* end = std::get_if<End>(&record)) return on_end(edge, *end);
  if (phase_ != Phase::open || lost_edge() != nullptr) return;
  edge.is_made = !std::holds_alternative<NotMade>(record);
  Result<void> taken;
  if (const auto* announcement = std::get_if<Announcement>(&record))
    taken = on_announcement(edge, *announcement);
  else if (const auto* grant = std::get_if<GrantRecord>(&record))
    taken = on_grant(edge, *grant);
  else if (const auto* small = std::get_if<SmallMessage>(&record))
    taken = on_small(edge, *small);
  else if (const auto* view = std::get_if<MappedMessage>(&record))
    taken = on_mapped(edge, *view);
  else if (const auto* report = std::get_if<Report>(&record))
    taken = on_report(edge, *report);
  else if (const auto* verdict = std::get_if<Verdict>(&record))
    taken = on_verdict(edge, *verdict);
  else if (const auto* note = std::get_if<Note>(&record))
    taken = on_note(edge, *note);
  if (!taken) fail(edge.rank, taken.error());
}

void Group::on_block(Link& link, const fabric::Completion& completion) {
  if (phase_ != Phase::open) return;
  Edge& edge = *find(link);
  edge.is_made = true;
  if (auto taken = take_block(edge, completion); !taken) fail(edge.rank, taken.error());
}

Result<void> Group::on_grant(Edge& edge, const GrantRecord& record) {
  // The grant and this member's last block have crossed in the network.
  if (record.message < next_to_finish_) return {};
  // The grant is for a first-block arena, and its message has turned out to be small. At the root, a message
  // that was sent and is not in messages_ is small, because unfinished large messages are in messages_.
  const bool is_small = smalls_.find(record.message) != nullptr ||
                        (record.message < next_number_ && find(record.message) == nullptr);
  if (is_small) return {};
  if (record.message - next_to_finish_ >= most_messages_ahead() && record.message >= next_number_) {
    return rdmc::fail(Errc::protocol_error, "a grant for a message far ahead");
  }
  if (config_.automatic && find(record.message) == nullptr) return keep_grant(edge, record);
  auto message = open(record.message, usual_plan());
  if (!message) return std::unexpected(message.error());
  ++counters_.grants_received;
  return (*message)->relay.on_grant(edge.rank, record.grant);
}

Result<void> Group::on_announcement(Edge& edge, const Announcement& announcement) {
  if (!config_.announce_lengths || is_root())
    return rdmc::fail(Errc::protocol_error, "an announcement where none belongs");
  // Like this member, the sender works on at most kMessagesInFlight messages at a time. It finishes no
  // message before this member has granted memory for it.
  if (announcement.message < next_to_finish_ ||
      announcement.message - next_to_finish_ >= most_messages_ahead())
    return rdmc::fail(Errc::protocol_error, "an announcement of a message far away");
  const auto plan = announced_plan(announcement);
  if (!plan) return std::unexpected(plan.error());
  const auto message = open(announcement.message, *plan);
  if (!message) return std::unexpected(message.error());
  if ((*message)->relay.has_length() || smalls_.find(announcement.message) != nullptr)
    return rdmc::fail(Errc::protocol_error, "a message announced twice");
  if (auto set = (*message)->relay.set_length(announcement.bytes); !set) return set;
  if ((*message)->relay.first_source() != edge.rank)
    return rdmc::fail(Errc::protocol_error, "an announcement from a member that is not the first source");
  last_large_ = std::max(last_large_, announcement.message + 1);
  use_kept_grants(**message);
  return {};
}

Result<void> Group::take_block(Edge& edge, const fabric::Completion& completion) {
  const std::uint32_t immediate = completion.immediate.value_or(0);
  Message* const message = find_by_low_bits(relay::slot_id_of(immediate), Peers::kSlotsPerGroup - 1);
  if (message == nullptr) return rdmc::fail(Errc::protocol_error, "a block of a message that nobody granted");
  const bool waited = message->relay.first_block_in_arena();
  const auto block = message->relay.on_block(edge.rank, immediate, completion.byte_count);
  if (!block) return std::unexpected(block.error());
  ++counters_.blocks_received;
  if (waited != message->relay.first_block_in_arena()) arena_is_expected_ = false;
  if (message->relay.is_omitted(*block)) {
    message->store->omitted(*block);
  } else if (waited == message->relay.first_block_in_arena()) {
    message->store->arrived(*block, completion.byte_count);
  } else if (message->store != nullptr) {
    // The block arrived before the redirection had an effect, so the redirection is cancelled.
    if (auto* const local = edge.link->local_peer(); local != nullptr && !completion.redirected)
      (void)local->redirect_write(arena_region_->remote_key(), {});
    place_first_block(*message, completion.redirected);
  }
  return {};
}

/// Called when the message's memory is known and its first block has not arrived yet. Redirects the block
/// straight into that memory, if the provider can still do that.
void Group::spare_arena(Message& message) {
  const std::uint64_t block = message.relay.first_block();
  const auto place =
      message.store->memory().subspan(message.relay.offset_of(block), message.relay.block_length(block));
  const auto source = message.relay.first_source();
  auto* const local = source && !place.empty() ? find(*source)->link->local_peer() : nullptr;
  if (local != nullptr) (void)local->redirect_write(arena_region_->remote_key(), place);
}

void Group::place_first_block(Message& message, bool is_in_place) {
  const std::uint64_t block = message.relay.first_block();
  const std::uint32_t bytes = message.relay.block_length(block);
  const auto source = arena_.bytes().first(bytes);
  const auto destination = message.store->memory().subspan(message.relay.offset_of(block), bytes);
  if (is_in_place) {
    ++counters_.first_blocks_in_place;
  } else {
    std::copy(source.begin(), source.end(), destination.begin());
    counters_.bytes_copied += bytes;
    ++counters_.first_blocks_copied;
  }
  message.relay.place_first_block();
  message.store->arrived(block, bytes);
}

}  // namespace rdmc::group

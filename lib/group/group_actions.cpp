// One turn of a group. In each turn, the group announces messages, asks the application for memory, asks the
// stores for their progress, executes the actions of every relay, and calls the observer.
#include <algorithm>
#include <utility>

#include "lib/group/group.hpp"

namespace rdmc::group {

std::size_t Group::work(Time now) {
  if (phase_ == Phase::ending) return go_on_ending(now);
  if (phase_ == Phase::released) return 0;
  if (const Edge* const lost = lost_edge()) {
    fail(lost->rank, {Errc::peer_failed, "it was lost before the group was made"});
    return 1;
  }
  if (!is_connected()) return 0;
  if (timed_ && !timed_->begin) timed_->begin = now;
  std::size_t done = 0;
  for (std::uint64_t before = UINT64_MAX; phase_ == Phase::open && next_to_finish_ != before;) {
    before = next_to_finish_;
    const auto driven = drive_all();
    if (!driven) {
      fail(std::nullopt, driven.error());
      return done + 1;
    }
    done += *driven + finish_messages();
  }
  if (phase_ == Phase::open) done += forward_smalls() + finish_messages();
  if (phase_ == Phase::open) watch_memory(now);
  if (phase_ == Phase::open) done += pass_notes() + confirm(now);
  return done;
}

bool Group::is_busy() const {
  if (phase_ == Phase::ending) return true;
  if (phase_ == Phase::released) return false;
  if (watching_) return true;
  if (config_.confirms && (closing_ || stable_ < std::max(next_number_, next_to_deliver_))) return true;
  return !smalls_.empty() || (!messages_.empty() && messages_.front().relay.has_length());
}

bool Group::is_connected() const {
  return std::ranges::all_of(edges_, [](const Edge& edge) { return edge.link->is_connected(); });
}

/// While a group with `survives` is open: returns an edge to a neighbour that was not connected when the
/// group was made. Null if there is none.
const Group::Edge* Group::lost_edge() const {
  if (!config_.survives) return nullptr;
  const auto lost = std::ranges::find(edges_, nullptr, &Edge::link);
  return lost == edges_.end() ? nullptr : &*lost;
}

bool Group::control_room() {
  static const std::size_t most = encoded_bytes(GrantRecord{});
  return std::ranges::all_of(edges_, [](const Edge& edge) { return edge.link->make_room(most); });
}

bool Group::write_room() const {
  return std::ranges::all_of(edges_, [](const Edge& edge) { return edge.link->can_write(); });
}

Result<std::size_t> Group::drive_all() {
  std::size_t done = 0;
  for (std::size_t i = 0; i < messages_.size(); ++i) {  // An index, because a store may call back.
    if (messages_[i].number >= end_of_window()) break;
    const auto driven = drive(messages_[i]);
    if (!driven || phase_ != Phase::open) return driven;
    done += *driven;
  }
  if (grants_ahead()) {
    if (auto offered = offer_arena(); !offered) return std::unexpected(offered.error());
  }
  return done;
}

Result<std::size_t> Group::drive(Message& message) {
  std::size_t done = 0;
  for (auto step : {&Group::announce, &Group::ask_for_memory, &Group::poll_store, &Group::drain_grants,
                    &Group::drain_writes}) {
    const auto result = (this->*step)(message);
    if (!result || phase_ != Phase::open) return result;
    done += *result;
  }
  return done;
}

// Announces the message to each member that gets its first block from this member. This happens as soon as
// the length is known, and before any block of the message is sent.
Result<std::size_t> Group::announce(Message& message) {
  if (!config_.announce_lengths || !message.relay.has_length()) return 0;
  std::size_t done = 0;
  for (; message.announced < edges_.size(); ++message.announced) {
    const Edge& edge = edges_[message.announced];
    if (message.relay.schedule().first_source_of(edge.rank, message.relay.block_count()) != config_.rank)
      continue;
    Announcement announcement{.message = message.number, .bytes = message.relay.length()};
    if (config_.automatic) announcement.plan = message.plan;
    if (!edge.link->send(config_.name, announcement)) return done;
    ++done;
  }
  return done;
}

Result<std::size_t> Group::ask_for_memory(Message& message) {
  if (!config_.announce_lengths || is_root() || message.upcalled || !message.relay.has_length()) return 0;
  next_to_ask_ = std::max(next_to_ask_, next_to_deliver_);
  // The application is asked in the order of the messages. For a small message, it is asked when the message
  // is the next one to be delivered.
  if (message.number != next_to_ask_) return 0;
  ++next_to_ask_;
  message.upcalled = true;
  const std::uint64_t number = message.number, bytes = message.relay.length();
  Store* const store = observer_.incoming(number, bytes);
  // The upcall may have called back, so the message is looked up again.
  Message* const still_open = phase_ == Phase::open ? find(number) : nullptr;
  if (store == nullptr || still_open == nullptr || still_open->store != nullptr) return 1;
  if (auto attached = attach(*still_open, *store, bytes); !attached) return std::unexpected(attached.error());
  return 1;
}

// Returns false while the last message in the arena may still use the arena. There are two cases: its first
// block is not placed yet, or a write of that block may still be sent, or sent again, from the arena.
bool Group::arena_is_free() {
  if (!arena_holder_) return true;
  const Message* const last = find(*arena_holder_);
  return last == nullptr || last->relay.arena_is_free();
}

// After a large message the arena is granted for the next message that has no memory, as soon as the arena is
// free. So in a row of large messages only the first one waits for a round trip before its first block.
Result<void> Group::offer_arena() {
  next_arena_ = std::max({next_arena_, next_to_deliver_, next_small_});
  const Message* next = find(next_arena_);
  for (; next != nullptr && next->store != nullptr; next = find(next_arena_)) ++next_arena_;
  // Offers nothing if the last message was small, or if there was no large message yet.
  if (last_large_ == 0 || next_arena_ > last_large_) return {};
  if (next_arena_ >= end_of_window() || !arena_is_free()) return {};
  auto message = open(next_arena_, usual_plan());
  if (!message) return std::unexpected(message.error());
  if (auto offered =
          (*message)->relay.offer_arena(arena_region_->remote_address(), arena_region_->remote_key());
      !offered) {
    return offered;
  }
  // Only one hint is given. If the message turns out to be small, this hint is valid for the next message. If
  // a second hint were given, the fabric could also scatter the WRITE that follows the first block into the
  // arena, over that block.
  if (const auto source = (*message)->relay.first_source();
      source && !std::exchange(arena_is_expected_, true))
    find(*source)->link->expect_write(arena_region_->remote_key(), arena_region_->remote_address(),
                                      config_.block_bytes);
  arena_holder_ = next_arena_++;
  if (auto granted = drain_grants(**message); !granted) return std::unexpected(granted.error());
  return {};
}

Result<std::size_t> Group::poll_store(Message& message) {
  if (message.store == nullptr) return 0;
  std::size_t done = 0;
  if (is_root()) {
    const auto available = message.store->available();
    if (!available) return std::unexpected(available.error());
    message.relay.on_available(*available);
  } else {
    consumed_.clear();
    if (auto polled = message.store->poll_consumed(consumed_); !polled)
      return std::unexpected(polled.error());
    for (const std::uint64_t block : consumed_) message.relay.on_consumed(block);
    message.consumed += consumed_.size();
    done += consumed_.size();
  }
  if (const std::uint64_t limit = message.relay.released_limit(); limit != message.released) {
    message.released = limit;
    message.store->released(limit);
    ++done;
  }
  return done;
}

void Group::hint_expected_writes(Message& message) {
  relay::ExpectedWrite expected_write;
  while (message.relay.poll_expected_write(expected_write)) {
    find(expected_write.from)
        ->link->expect_write(expected_write.key, expected_write.remote_address, expected_write.bytes);
  }
}

Result<std::size_t> Group::drain_grants(Message& message) {
  std::size_t done = 0;
  Rank to;
  relay::BlockGrant grant;
  while (control_room() && message.relay.poll_grant(to, grant)) {
    Edge& edge = *find(to);
    edge.granted = true;
    edge.link->send(config_.name, GrantRecord{message.number, grant});
    ++counters_.grants_sent;
    ++done;
  }
  if (message.store != nullptr) hint_expected_writes(message);
  return done;
}

Result<std::size_t> Group::drain_writes(Message& message) {
  std::size_t done = 0;
  relay::BlockWrite write;
  if (config_.announce_lengths && message.announced < edges_.size()) return 0;
  while (write_room() && message.relay.poll_write(write)) {
    Edge& edge = *find(write.to);
    const auto from = write.from_arena ? arena_.bytes() : message.store->memory();
    auto posted = edge.link->write({.work_id = Link::block_write_id(index_, message.number, write.block),
                                    .bytes = from.subspan(write.local_offset, write.bytes),
                                    .remote_address = write.remote_address,
                                    .remote_key = write.key,
                                    .immediate = write.immediate,
                                    // The announcement must arrive before a block in the arena.
                                    .unordered = !write.into_arena});
    if (!posted) return 0;  // The link is lost. The next poll reports it.
    ++edge.writes;
    ++counters_.blocks_sent;
    ++done;
  }
  return done;
}

// Delivers and completes messages in the order of their numbers, even if their last blocks arrived in another
// order.
std::size_t Group::finish_messages() {
  std::size_t done = 0;
  while (phase_ == Phase::open && deliver_next()) ++done;
  while (phase_ == Phase::open && finish_next()) ++done;
  return done;
}

bool Group::deliver_next() {
  const std::uint64_t number = next_to_deliver_;
  if (Message* const message = find(number)) {
    if (!message->relay.is_delivered()) return false;
    if (!is_root() && message->consumed != message->relay.block_count()) return false;
  } else if (is_root()) {
    const auto* const small = number < next_number_ ? smalls_.find(number) : nullptr;
    if (number >= next_number_ || (small != nullptr && !small->forwarded)) return false;
  } else {
    auto* const small = smalls_.find(number);
    return small != nullptr && (small->mapped ? take_mapped(*small) : take_small(*small));
  }
  ++next_to_deliver_;
  observer_.delivered(number);
  return true;
}

bool Group::finish_next() {
  const std::uint64_t number = next_to_finish_;
  if (number == next_to_deliver_) return false;
  if (!messages_.empty() && messages_.front().number == number) {
    if (!messages_.front().relay.is_complete()) return false;
    messages_.pop_front();
  } else if (!smalls_.empty() && smalls_.front().number == number) {
    if (!smalls_.front().forwarded || !is_released(smalls_.front())) return false;
    kept_charge_ -= smalls_.front().charge;
    smalls_.pop_front();
  }
  ++next_to_finish_;
  observer_.completed(number);
  return true;
}

void Group::watch_memory(Time now) {
  const Message* const next = find(next_to_deliver_);
  const bool waits =
      next != nullptr ? next->upcalled && next->store == nullptr : smalls_.find(next_to_deliver_) != nullptr;
  if (waits && !is_root()) waited_ = next_to_deliver_ + 1;
  if (!memory_awaited_.value_or(!is_root() && waits)) {
    memory_since_ = Time::never();
    if (!is_root()) holder_.reset();
    return;
  }
  if (std::exchange(memory_for_, next_to_deliver_) != next_to_deliver_) {
    memory_since_ = Time::never();  // Each message is timed separately.
    if (!is_root()) holder_.reset();
  }
  memory_since_ = std::min(memory_since_, now);
  const Duration waited = now - memory_since_;
  if (!is_root() && waited >= kHoldUp) holder_ = Holder{.member = config_.rank, .message = next_to_deliver_};
  if (config_.memory_patience != Duration{} && waited >= config_.memory_patience)
    fail(config_.rank, {Errc::timed_out, "no memory was posted for a message"});
}

/// The time at which watch_memory() next has something to do.
Time Group::memory_deadline() const {
  if (memory_since_ == Time::never()) return Time::never();
  const Time end =
      config_.memory_patience == Duration{} ? Time::never() : memory_since_ + config_.memory_patience;
  return is_root() || holder_ ? end : std::min(end, memory_since_ + kHoldUp);
}

}  // namespace rdmc::group

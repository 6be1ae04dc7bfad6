// What comes in: completions of our writes, blocks that have landed, control frames of neighbours.
#include <algorithm>
#include <array>

#include "lib/group/group.hpp"

namespace rdmc::group {
namespace {

/// How far ahead of the oldest unfinished message a peer's frame may name one. Peers run at most one message
/// ahead of what they have been sent; more is a protocol error, not a reason to allocate.
constexpr std::uint64_t kMessagesAhead = 8;

}  // namespace

std::size_t Group::poll_link(Link& link) {
  std::array<fabric::Completion, 64> completions;
  const std::size_t count = link.queue_pair().poll_completions(completions);
  for (const auto& completion : std::span(completions).first(count)) {
    if (failed_) break;
    if (auto handled = on_completion(link, completion); !handled) fail(link.peer(), handled.error());
  }
  if (!failed_ && link.queue_pair().state() == fabric::QueuePairState::error) {
    fail(link.peer(), {Errc::peer_failed, link.queue_pair().error_cause()});
  }
  return count;
}

Result<void> Group::on_completion(Link& link, const fabric::Completion& completion) {
  if (completion.status != fabric::WorkStatus::success) {
    return rdmc::fail(Errc::peer_failed, link.queue_pair().error_cause());
  }
  switch (Link::kind_of(completion.work_id)) {
    case Link::Work::control_send: link.control_send_done(completion.work_id); return {};
    case Link::Work::block_write:
      if (Message* const message = find_by_low_bits(Link::message_of(completion.work_id), 0xFFFF)) {
        message->relay.on_write_complete(link.peer(), Link::block_of(completion.work_id));
      }
      return {};
    case Link::Work::receive: break;
  }
  if (completion.kind == fabric::WorkKind::receive_write_immediate) {
    if (auto handled = on_block(link, completion); !handled) return handled;
  } else if (auto handled = on_control(link, link.received(completion)); !handled) {
    return handled;
  }
  return link.repost(completion.work_id);
}

Result<void> Group::on_control(Link& link, std::span<const std::byte> bytes) {
  const auto frame = decode_control_frame(bytes);
  if (!frame) return std::unexpected(frame.error());
  const std::uint64_t number = std::visit([](const auto& f) { return f.message; }, *frame);
  if (number >= next_to_finish_ + kMessagesAhead && number >= next_number_) {
    return rdmc::fail(Errc::protocol_error, "a frame for a message far ahead");
  }
  if (number < next_to_finish_) return {};  // a last grant that crossed our last block
  auto message = open(number);
  if (!message) return std::unexpected(message.error());
  if (const auto* grant = std::get_if<GrantFrame>(&*frame)) {
    ++counters_.grants_received;
    return (*message)->relay.on_grant(link.peer(), grant->grant);
  }
  if (!config_.announce_lengths || is_root() ||
      (*message)->relay.schedule().first_source_of(config_.rank) != link.peer()) {
    return rdmc::fail(Errc::protocol_error, "an announcement from a member that is not the first source");
  }
  if ((*message)->relay.has_length()) return rdmc::fail(Errc::protocol_error, "a message announced twice");
  const std::uint64_t length = std::get<Announcement>(*frame).bytes;
  if (auto set = (*message)->relay.set_length(length); !set) return set;
  Store* const store = listener_.incoming(number, length);
  // The upcall may have called back in: look the message up again.
  Message* const still_open = find(number);
  if (store == nullptr || still_open == nullptr || still_open->store != nullptr) return {};
  return attach(*still_open, *store);
}

Result<void> Group::on_block(Link& link, const fabric::Completion& completion) {
  const std::uint32_t immediate = completion.immediate.value_or(0);
  Message* const message = find_by_low_bits(relay::slot_id_of(immediate), 0xFF);
  if (message == nullptr) return rdmc::fail(Errc::protocol_error, "a block of a message that nobody granted");
  const bool waited = message->relay.first_block_in_arena();
  const auto block = message->relay.on_block(link.peer(), immediate, completion.byte_count);
  if (!block) return std::unexpected(block.error());
  ++counters_.blocks_received;
  if (waited == message->relay.first_block_in_arena()) {
    message->store->arrived(*block, completion.byte_count);
  } else if (message->store != nullptr) {
    place_first_block(*message);
  }
  return {};
}

void Group::place_first_block(Message& message) {
  const std::uint64_t block = message.relay.first_block();
  const std::uint32_t bytes = message.relay.block_length(block);
  const auto source = arena_.bytes().first(bytes);
  const auto destination = message.store->memory().subspan(message.relay.offset_of(block), bytes);
  // A write that still reads the arena (the application named its memory late) must keep its pages.
  std::size_t copied = bytes;
  if (exchange_ && !message.relay.first_block_busy()) {
    copied = exchange_->hand_off(source, destination);
  } else {
    std::copy(source.begin(), source.end(), destination.begin());
  }
  counters_.bytes_copied += copied;
  ++(copied < bytes ? counters_.first_blocks_exchanged : counters_.first_blocks_copied);
  message.relay.place_first_block();
  arena_in_use_ = false;
  message.store->arrived(block, bytes);
}

}  // namespace rdmc::group

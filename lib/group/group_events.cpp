// What comes in: completions of our writes, blocks that have landed, control frames of neighbours.
#include <algorithm>
#include <array>
#include <bit>

#include "lib/group/group.hpp"

namespace rdmc::group {
namespace {

/// How many messages beyond our oldest unfinished one a peer's grant may name; more is a protocol error, not
/// a reason to allocate. Each member works on at most kMessagesUnderWay; so does our first source, whose
/// oldest unfinished one may therefore be so far ahead of ours, and so on to the root, at most
/// ceil(log2 members) members away; beyond what the root works on another member may grant as many again.
std::uint64_t most_messages_ahead(std::uint32_t members) {
  return Group::kMessagesUnderWay * (static_cast<std::uint64_t>(std::bit_width(members)) + 2);
}

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
      link.write_done();
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
  if (failed_) return {};  // an upcall has ended the group, and the link with it
  return link.repost(completion.work_id);
}

Result<void> Group::on_control(Link& link, std::span<const std::byte> bytes) {
  const auto frame = decode_control_frame(bytes);
  if (!frame) return std::unexpected(frame.error());
  const std::uint64_t number = std::visit([](const auto& f) { return f.message; }, *frame);
  if (number < next_to_finish_) return {};  // a last grant that crossed our last block
  if (const auto* announcement = std::get_if<Announcement>(&*frame))
    return on_announcement(link, *announcement);
  if (number - next_to_finish_ >= most_messages_ahead(config_.members) && number >= next_number_) {
    return rdmc::fail(Errc::protocol_error, "a grant for a message far ahead");
  }
  auto message = open(number);
  if (!message) return std::unexpected(message.error());
  ++counters_.grants_received;
  return (*message)->relay.on_grant(link.peer(), std::get<GrantFrame>(*frame).grant);
}

Result<void> Group::on_announcement(Link& link, const Announcement& announcement) {
  // Whoever announces a message has been granted the arena for it.
  Message* const message = announcement.message < next_arena_ ? find(announcement.message) : nullptr;
  if (message == nullptr || message->relay.schedule().first_source_of(config_.rank) != link.peer()) {
    return rdmc::fail(Errc::protocol_error, "an announcement from a member that is not the first source");
  }
  if (message->relay.has_length()) return rdmc::fail(Errc::protocol_error, "a message announced twice");
  if (auto set = message->relay.set_length(announcement.bytes); !set) return set;
  Store* const store = listener_.incoming(announcement.message, announcement.bytes);
  // The upcall may have called back in: look the message up again.
  Message* const still_open = find(announcement.message);
  if (store == nullptr || still_open == nullptr || still_open->store != nullptr) return {};
  if (auto attached = attach(*still_open, *store, announcement.bytes); !attached)
    fail(std::nullopt, attached.error());  // our own application's fault
  return {};
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
  message.store->arrived(block, bytes);
}

}  // namespace rdmc::group

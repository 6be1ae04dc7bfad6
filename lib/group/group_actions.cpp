// One turn: look at what has come in, ask the stores, drain every relay's actions, tell the application.
#include <algorithm>
#include <array>

#include "lib/group/group.hpp"

namespace rdmc::group {

std::size_t Group::work(Time) {
  if (failed_) return 0;
  std::size_t done = 0;
  for (const auto& link : links_) {
    done += poll_link(*link);
    if (failed_) return done;
  }
  if (!is_connected()) return done;
  for (std::uint64_t before = UINT64_MAX; !failed_ && next_to_finish_ != before;) {
    before = next_to_finish_;
    const auto driven = drive_all();
    if (!driven) {
      fail(std::nullopt, driven.error());
      return done;
    }
    done += *driven + finish_messages();
  }
  return done;
}

bool Group::is_connected() const {
  return std::ranges::all_of(links_, [](const auto& link) { return link->is_connected(); });
}

bool Group::control_room() const {
  return std::ranges::all_of(links_, [](const auto& link) { return link->can_send_control(); });
}

bool Group::write_room() const {
  return std::ranges::all_of(links_, [](const auto& link) { return link->can_write(); });
}

Result<std::size_t> Group::drive_all() {
  if (config_.announce_lengths && !is_root() && next_arena_ < end_of_window() && arena_is_free()) {
    if (auto offered = offer_arena(); !offered) return std::unexpected(offered.error());
  }
  std::size_t done = 0;
  for (std::size_t i = 0; i < messages_.size(); ++i) {  // by index: a store may call back in
    if (messages_[i].number >= end_of_window()) break;
    const auto driven = drive(messages_[i]);
    if (!driven) return driven;
    done += *driven;
  }
  return done;
}

Result<std::size_t> Group::drive(Message& message) {
  std::size_t done = 0;
  for (auto step : {&Group::poll_store, &Group::drain_grants, &Group::drain_writes}) {
    const auto result = (this->*step)(message);
    if (!result) return result;
    done += *result;
  }
  return done;
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

void Group::hint_landings(Message& message) {
  relay::Landing landing;
  while (message.relay.poll_landing(landing)) {
    link_to(landing.from)
        ->queue_pair()
        .expect_write(message.store->memory().subspan(landing.offset, landing.bytes));
  }
}

Result<std::size_t> Group::drain_grants(Message& message) {
  std::size_t done = 0;
  Rank to;
  relay::Grant grant;
  while (control_room() && message.relay.poll_grant(to, grant)) {
    if (auto sent = link_to(to)->send_control(GrantFrame{message.number, grant}); !sent) {
      return std::unexpected(sent.error());
    }
    ++counters_.grants_sent;
    ++done;
  }
  if (message.store != nullptr) hint_landings(message);
  return done;
}

Result<std::size_t> Group::drain_writes(Message& message) {
  std::size_t done = 0;
  relay::BlockWrite write;
  while (control_room() && write_room() && message.relay.poll_write(write)) {
    Link& link = *link_to(write.to);
    if (write.into_arena && std::ranges::find(message.announced_to, write.to) == message.announced_to.end()) {
      message.announced_to.push_back(write.to);
      if (auto sent = link.send_control(Announcement{message.number, message.relay.length()}); !sent) {
        return std::unexpected(sent.error());
      }
    }
    const auto from = write.from_arena ? arena_.bytes() : message.store->memory();
    auto posted = link.write({.work_id = Link::block_write_id(message.number, write.block),
                              .bytes = from.subspan(write.local_offset, write.bytes),
                              .remote_address = write.remote_address,
                              .remote_key = write.key,
                              .immediate = write.immediate});
    if (!posted) return std::unexpected(posted.error());
    ++counters_.blocks_sent;
    ++done;
  }
  return done;
}

// In the order of the messages, whatever order their last blocks came in.
std::size_t Group::finish_messages() {
  std::size_t done = 0;
  for (std::size_t i = 0; i < messages_.size() && !failed_; ++i) {
    Message& message = messages_[i];
    if (message.delivered) continue;
    if (message.number != next_to_finish_ + i || !message.relay.is_delivered()) break;
    if (!is_root() && message.consumed != message.relay.block_count()) break;
    message.delivered = true;
    listener_.delivered(message.number);
    ++done;
  }
  while (!failed_ && !messages_.empty() && messages_.front().delivered &&
         messages_.front().relay.is_complete()) {
    const std::uint64_t number = messages_.front().number;
    messages_.pop_front();
    next_to_finish_ = number + 1;
    listener_.completed(number);
    ++done;
  }
  return done;
}

}  // namespace rdmc::group

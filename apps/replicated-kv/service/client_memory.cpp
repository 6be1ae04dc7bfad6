#include "apps/replicated-kv/service/client_memory.hpp"

#include <algorithm>

namespace rdmc::kv {

void ClientMemory::update(std::uint64_t client, const Need& need, Milliseconds now) {
  auto known = large_.find(client);
  if (need.bytes <= kSmall && known == large_.end()) return;
  const bool was_exceeded = is_exceeded();
  if (need.bytes <= kSmall) {
    forget_large(known);
  } else {
    if (known == large_.end()) known = large_.emplace(client, Large{.progressed_at = now}).first;
    total_ = total_ - known->second.need.bytes + need.bytes;
    // The time of a client that does not read begins when there is something to read.
    if (known->second.need.unread == 0 && need.unread != 0) known->second.progressed_at = now;
    known->second.need = need;
    if (sender_ == client && !need.is_sending) sender_ = 0;
    if (!need.is_sending) known->second.turn = 0;
  }
  note(was_exceeded, now);
}

void ClientMemory::note(bool was_exceeded, Milliseconds now) {
  if (!was_exceeded && is_exceeded()) exceeded_since_ = now;
  if (was_exceeded && !is_exceeded()) {
    has_changed_ = true;
    sender_ = 0;
    for (auto& [client, large] : large_) large.turn = 0;
  }
  if (is_exceeded() && sender_ == 0) choose_sender(now);
}

void ClientMemory::progress(std::uint64_t client, std::size_t bytes, Milliseconds now) {
  const auto known = large_.find(client);
  if (known == large_.end()) return;
  Large& large = known->second;
  large.progress += bytes;
  if (large.progress < kProgress) return;
  large.progress = 0;
  large.progressed_at = now;
}

void ClientMemory::want_to_send(std::uint64_t client, Milliseconds now) {
  const auto known = large_.find(client);
  if (known == large_.end() || known->second.turn != 0 || may_send(client)) return;
  known->second.turn = ++last_turn_;
  if (sender_ == 0) choose_sender(now);
}

void ClientMemory::look(Milliseconds now) {
  const auto known = large_.find(sender_);
  if (!is_exceeded() || known == large_.end() || now - known->second.progressed_at < kTurn) return;
  sender_ = 0;
  choose_sender(now);
}

void ClientMemory::forget(std::uint64_t client, Milliseconds now) {
  const auto known = large_.find(client);
  if (known == large_.end()) return;
  const bool was_exceeded = is_exceeded();
  forget_large(known);
  note(was_exceeded, now);
}

void ClientMemory::forget_large(std::map<std::uint64_t, Large>::iterator known) {
  if (sender_ == known->first) sender_ = 0;
  total_ -= known->second.need.bytes;
  large_.erase(known);
}

void ClientMemory::choose_sender(Milliseconds now) {
  auto next = large_.end();
  for (auto one = large_.begin(); one != large_.end(); ++one)
    if (one->second.turn != 0 && (next == large_.end() || one->second.turn < next->second.turn)) next = one;
  if (next == large_.end()) return;
  sender_ = next->first;
  next->second.turn = 0;
  next->second.progressed_at = now;
  has_changed_ = true;
}

/// A client that waits for the service or for its turn has done what it could, but it could read.
std::optional<std::uint64_t> ClientMemory::victim(Milliseconds now) const {
  if (!is_exceeded()) return std::nullopt;
  std::size_t unread = 0, longest = 0;
  for (const auto& [client, large] : large_) {
    unread += large.need.unread;
    longest = std::max(longest, large.need.unread);
  }
  // The longest replies do not count, because a reply may have any length.
  const bool is_unread_too_much = unread - longest > most_;
  const Milliseconds patience = is_unread_too_much ? kTurn : kPatience;
  if (now - exceeded_since_ < patience) return std::nullopt;
  std::optional<std::uint64_t> found;
  std::size_t most = 0;
  for (const auto& [client, large] : large_) {
    const bool waits = !is_unread_too_much && (large.need.waits_for_us || large.turn != 0);
    const std::size_t bytes = is_unread_too_much ? large.need.unread : large.need.bytes;
    if (waits || now - large.progressed_at < patience || bytes <= most) continue;
    most = bytes;
    found = client;
  }
  return found;
}

}  // namespace rdmc::kv

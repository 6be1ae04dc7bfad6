#include "apps/sim/block_member.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace rdmc::sim_app {
namespace {

relay::Relay make_relay(const relay::RelayConfig& config) {
  auto relay = relay::Relay::create(config);
  assert(relay.has_value());
  return std::move(*relay);
}

}  // namespace

BlockMember::BlockMember(const relay::RelayConfig& config, std::uint64_t slots, BlockOutbox& outbox)
    : config_(config), relay_(make_relay(config)), most_slots_(slots), outbox_(outbox) {}

void BlockMember::check(bool holds, const char* what, std::uint64_t block) {
  if (!holds) outbox_.violate(std::string(what) + ": block " + std::to_string(block));
}

void BlockMember::send(std::uint64_t bytes) {
  check(relay_.set_length(bytes).has_value(), "the root's length is refused", 0);
  announce();
  take_memory();
  refill();
  drain();
}

void BlockMember::listen() {
  if (first_source_needs_length(config_.algorithm)) return;
  check(relay_.offer_arena(kArenaAt, key()).has_value(), "the arena is refused", 0);
  drain();
}

/// Sends the length to the destinations that need it before their first block. A destination that has granted
/// its arena gets the length with its first block instead.
void BlockMember::announce() {
  if (!first_source_needs_length(config_.algorithm)) return;
  const relay::Schedule& schedule = relay_.schedule();
  for (const Rank to : schedule.destinations()) {
    if (schedule.first_source_of(to, relay_.block_count()) == schedule.rank())
      outbox_.post(to, LengthNote{relay_.length()});
  }
}

void BlockMember::take_memory() {
  slots_.assign(std::min(most_slots_, relay_.block_count()), kNothing);
  seen_.resize(relay_.block_count());
  check(relay_.set_memory({slots_.size(), kMemoryAt, key()}).has_value(), "the memory is refused", 0);
}

/// Reads in as many of the root's blocks as its memory has space for.
void BlockMember::refill() {
  const std::uint64_t end = std::min(relay_.block_count(), released_ + slots_.size());
  for (; available_ < end; ++available_) slots_[available_ % slots_.size()] = available_;
  relay_.on_available(available_);
}

std::uint64_t* BlockMember::place_of(std::uint64_t address, std::uint64_t bytes) {
  if (address == kArenaAt && bytes <= config_.block_bytes) return &arena_;
  if (address < kMemoryAt || (address - kMemoryAt) % config_.block_bytes != 0) return nullptr;
  const std::uint64_t slot = (address - kMemoryAt) / config_.block_bytes;
  return slot < slots_.size() && bytes <= config_.block_bytes ? &slots_[slot] : nullptr;
}

void BlockMember::land(const relay::BlockWrite& write) {
  std::uint64_t* const place = place_of(write.remote_address, write.bytes);
  check(place != nullptr && write.key == key(), "written outside the granted memory", write.block);
  if (place == nullptr) return;
  check(*place == kNothing, "written over a block that is still needed", write.block);
  *place = write.block;
}

void BlockMember::complete(Rank from, const relay::BlockWrite& write) {
  const auto block = relay_.on_block(from, write.immediate, write.bytes);
  if (!block) return outbox_.violate(block.error().what + ": block " + std::to_string(write.block));
  check(*block == write.block, "its index is rebuilt wrongly", write.block);
  if (arena_ == *block && relay_.first_block_in_arena()) {
    check(slots_[*block % slots_.size()] == kNothing, "its slot is taken", *block);
    slots_[*block % slots_.size()] = std::exchange(arena_, kNothing);
    relay_.place_first_block();
  }
  check(slots_[*block % slots_.size()] == *block, "it is not where it should be", *block);
  check(!seen_[*block], "delivered twice", *block);
  seen_[*block] = true;
  ++received_;
  relay_.on_consumed(*block);
  drain();
}

void BlockMember::on_note(Rank, const LengthNote& note) {
  check(!relay_.has_length(), "announced twice", 0);
  if (relay_.has_length()) return;
  check(relay_.set_length(note.bytes).has_value(), "the length is refused", 0);
  announce();
  take_memory();
  drain();
}

void BlockMember::on_note(Rank from, const relay::BlockGrant& grant) {
  if (auto taken = relay_.on_grant(from, grant); !taken) outbox_.violate(taken.error().what);
  drain();
}

void BlockMember::on_note(Rank from, const AcknowledgedNote& note) {
  check(slots_[note.block % slots_.size()] == note.block, "gone before it was acknowledged", note.block);
  relay_.on_write_complete(from, note.block);
  drain();
}

void BlockMember::drain() {
  for (; released_ < relay_.released_limit(); ++released_) {
    std::uint64_t& slot = slots_[released_ % slots_.size()];
    check(slot == released_, "released without having been here", released_);
    slot = kNothing;
  }
  if (relay_.schedule().is_root() && relay_.has_length()) refill();
  Rank to{};
  for (relay::BlockGrant grant; relay_.poll_grant(to, grant);) outbox_.post(to, grant);
  for (relay::BlockWrite write; relay_.poll_write(write);) {
    check(!write.from_arena && slots_[write.local_offset / config_.block_bytes] == write.block,
          "sent from where it is not", write.block);
    if (write.into_arena) outbox_.post(write.to, LengthNote{relay_.length()});
    outbox_.post(write.to, write);
  }
}

}  // namespace rdmc::sim_app

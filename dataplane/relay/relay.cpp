// Handles the length of a message, its memory, and the release of its slots.
#include "dataplane/relay/relay.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <string>

namespace rdmc::relay {

namespace {

constexpr std::uint32_t kMaxBlockBytes = 0x7FFF'FFFF;  // the largest number of bytes that one WRITE can carry
constexpr std::uint64_t kLeastWindow = 64, kMostWindow = 4096;

/// The number of sends in the send window: enough for the writes in flight and for some steps after a send
/// that waits, and always enough for all sends of one block.
std::uint64_t window_capacity(const RelayConfig& config, const Schedule& schedule) {
  const Pace pace = schedule.pace();
  const std::uint64_t of_a_block = pace.lag - pace.lead + 1;
  return std::bit_ceil(
      std::max(kLeastWindow, 2 * std::uint64_t{config.max_writes_in_flight} + 4 * of_a_block));
}

}  // namespace

Result<Relay> Relay::create(const RelayConfig& config) {
  const auto refuse = [](const char* what) { return fail(Errc::invalid_argument, what); };
  if (config.members == 0 || config.members > kMaxMembers) return refuse("relay: members out of range");
  if (config.racks.is_known() && config.racks.members() != config.members)
    return refuse("relay: the racks have another number of members");
  if (value_of(config.rank) >= config.members) return refuse("relay: rank is not one of the members");
  if (config.block_bytes == 0 || config.block_bytes > kMaxBlockBytes)
    return refuse("relay: block size out of range");
  if (config.max_writes_in_flight == 0 || config.max_writes_in_flight > kMaxWritesInFlight) {
    return refuse("relay: writes in flight out of range");
  }
  if (config.stragglers >= config.members) return refuse("relay: nobody but stragglers");
  Relay relay(config);
  const auto is_other = [](const Destination& destination) { return !destination.is_straggler; };
  if (relay.is_straggler(config.rank) && std::ranges::any_of(relay.destinations_, is_other))
    return refuse("relay: a straggler that others depend on");
  return relay;
}

Relay::Relay(const RelayConfig& config)
    : config_(config),
      schedule_(config.algorithm, config.rank, config.members, config.racks),
      first_(schedule_.first_receive(kMaxBlocks).value_or(Transfer{})),
      window_(window_capacity(config, schedule_)) {
  for (const Rank rank : schedule_.sources()) sources_.push_back({.rank = rank});
  for (const Rank rank : schedule_.destinations())
    destinations_.push_back({.rank = rank, .is_straggler = is_straggler(rank)});
  has_stragglers_ = std::ranges::any_of(destinations_, &Destination::is_straggler);
}

Result<std::uint64_t> Relay::count_blocks(std::uint64_t bytes) const {
  const std::uint64_t blocks = relay::block_count(bytes, config_.block_bytes);
  if (blocks > kMaxBlocks) return fail(Errc::invalid_argument, "relay: too many blocks");
  return blocks;
}

std::uint64_t Relay::least_slots(std::uint64_t blocks) const {
  return std::min(blocks, schedule_.is_root() ? 1 : schedule_.minimum_slots());
}

Result<void> Relay::check_slots(std::uint64_t slots, std::uint64_t blocks) const {
  if (slots >= least_slots(blocks)) return {};
  return fail(Errc::invalid_argument, "relay: a ring of " + std::to_string(slots) + " slots among " +
                                          std::to_string(config_.members) + " members; it takes " +
                                          std::to_string(least_slots(blocks)));
}

Result<void> Relay::accepts(std::uint64_t bytes, std::uint64_t slots) const {
  if (has_length() && bytes != length_) return fail(Errc::protocol_error, "relay: a message has two lengths");
  if (memory_) return fail(Errc::invalid_argument, "relay: memory twice");
  const auto blocks = count_blocks(bytes);
  if (!blocks) return std::unexpected(blocks.error());
  return check_slots(slots, *blocks);
}

Result<void> Relay::set_length(std::uint64_t bytes) {
  if (has_length()) {
    if (bytes == length_) return {};
    return fail(Errc::protocol_error, "relay: a message has two lengths");
  }
  const auto blocks = count_blocks(bytes);
  if (!blocks) return std::unexpected(blocks.error());
  length_ = bytes;
  blocks_ = *blocks;
  steps_ = schedule_.steps(blocks_);
  first_ = schedule_.first_receive(blocks_).value_or(Transfer{});
  for (Source& source : sources_) {
    source.receive_step = source.expected_step = schedule_.next_receive_from(source.rank, 0, blocks_);
  }
  if (arena_ == Arena::granted) skip_arena_write();
  return {};
}

Result<void> Relay::set_memory(const Memory& memory) {
  if (!has_length()) return fail(Errc::invalid_argument, "relay: memory before the length");
  if (memory_) return fail(Errc::invalid_argument, "relay: memory twice");
  if (auto enough = check_slots(memory.slots, blocks_); !enough) return enough;
  if (!schedule_.is_root()) {
    held_.resize(std::min(memory.slots, blocks_));
    consumed_.resize(held_.size());
    overtaken_.resize(held_.size());
    if (is_straggler(config_.rank)) omitted_.resize(held_.size());
    if (arena_ == Arena::holds_first_block) held_[first_block() % held_.size()] = true;
  }
  // A slow destination must not delay the other destinations while the blocks that it has not received are
  // still in slots. For this, the window must contain the sends of all blocks that have slots. Blocks that
  // are omitted for a straggler need no slots, so with stragglers the window may contain the sends of all
  // blocks.
  const std::uint64_t sends = has_stragglers_ ? blocks_ * destinations_.size() : memory.slots;
  window_.grow(std::bit_ceil(std::min({sends, blocks_ * destinations_.size(), kMostWindow})));
  // This is set last, after everything that may throw. So a relay that has memory also has its slot tables.
  memory_ = memory;
  // With a ring buffer of the least size, every slot is granted as soon as it is free. With a larger ring
  // buffer, several slots are granted together, so that fewer grants are sent.
  grant_batch_ =
      std::max(std::uint64_t{1}, std::min(memory.slots / 4, memory.slots - least_slots(blocks_) + 1));
  release();
  return {};
}

Result<void> Relay::offer_arena(std::uint64_t remote_address, RemoteKey key) {
  if (schedule_.is_root()) return fail(Errc::invalid_argument, "relay: the root receives nothing");
  if (first_source_needs_length(config_.algorithm))
    return fail(Errc::invalid_argument, "relay: an arena where the first source depends on the length");
  if (memory_ || arena_ != Arena::none) return fail(Errc::invalid_argument, "relay: arena twice or too late");
  arena_ = Arena::offered;
  arena_address_ = remote_address;
  arena_key_ = key;
  return {};
}

void Relay::place_first_block() {
  assert(memory_ && arena_ == Arena::holds_first_block);
  arena_ = Arena::emptied;
}

std::uint64_t Relay::first_block() const {
  assert(has_length() && !schedule_.is_root());
  return first_.block;
}

std::optional<Rank> Relay::first_source() const {
  assert(has_length() || !first_source_needs_length(config_.algorithm));
  if (schedule_.is_root()) return std::nullopt;
  return first_.peer;
}

std::uint32_t Relay::block_length(std::uint64_t block) const {
  assert(block < blocks_);
  if (block + 1 < blocks_) return config_.block_bytes;
  return static_cast<std::uint32_t>(length_ - block * config_.block_bytes);
}

std::uint64_t Relay::offset_of(std::uint64_t block) const {
  assert(memory_);
  return block % memory_->slots * config_.block_bytes;
}

void Relay::on_available(std::uint64_t limit) {
  assert(schedule_.is_root() && has_length());
  if (cancelled_) return;
  received_ = reached_ = std::max(reached_, std::min(limit, blocks_));
  release();
}

void Relay::on_consumed(std::uint64_t block) {
  assert(!schedule_.is_root() && memory_ && block >= released_ && holds(block));
  if (cancelled_) return;
  consumed_[block % consumed_.size()] = true;
  release();
}

bool Relay::holds(std::uint64_t block) const {
  if (block < released_) return true;
  if (schedule_.is_root()) return block < reached_;
  if (!memory_) return arena_ == Arena::holds_first_block && block == first_block();
  return block < released_ + held_.size() && held_[block % held_.size()];
}

BlockMap Relay::held() const {
  BlockMap map(blocks_);
  const bool arena = arena_ == Arena::holds_first_block;
  for (std::uint64_t block = 0; block < blocks_; ++block) {
    if (memory_ && holds(block) && !is_omitted(block) && !(arena && block == first_block()))
      map.insert(block);
  }
  return map;
}

bool Relay::is_omitted(std::uint64_t block) const {
  return !omitted_.empty() && block >= released_ && block < released_ + omitted_.size() &&
         omitted_[block % omitted_.size()];
}

std::size_t Relay::state_bytes() const {
  return sizeof *this + window_.bytes() + sources_.capacity() * sizeof(Source) +
         destinations_.capacity() * sizeof(Destination) +
         (held_.capacity() + consumed_.capacity() + overtaken_.capacity() + omitted_.capacity()) / 8;
}

/// Releases blocks in their order. A slot is free when its block has arrived and was consumed, and no
/// scheduled send of it is left. The sends of a block are close together (see Pace), so only a few sends
/// have to be checked.
void Relay::release() {
  extend_window();
  const auto has_send = [&](std::uint64_t block, std::uint64_t end) {
    for (std::uint64_t at = window_.begin(); at < window_.end() && window_[at].step < end; ++at) {
      if (SendWindow::needs_slot(window_[at]) && window_[at].block == block) return true;
    }
    return false;
  };
  while (memory_ && released_ < blocks_) {
    const std::uint64_t block = released_;
    if (schedule_.is_root()) {
      if (block >= reached_) return;
    } else if (!held_[block % held_.size()] || !consumed_[block % held_.size()]) {
      return;
    }
    const std::uint64_t end = schedule_.sent_by(block, blocks_);
    // The first send that needs a slot is for block released_ or a later one. So the window contains all
    // sends before `end`, unless it is full of sends of omitted blocks.
    if (window_.seen() < end) return;
    if (has_send(block, end)) return;
    if (!schedule_.is_root()) {
      held_[block % held_.size()] = false;
      consumed_[block % held_.size()] = false;
      if (!omitted_.empty()) omitted_[block % held_.size()] = false;
    }
    ++released_;
  }
}

}  // namespace rdmc::relay

#include "lib/group/group.hpp"

#include <algorithm>
#include <cassert>

namespace rdmc::group {

Group::Group(fabric::Fabric& fabric, const GroupConfig& config, Listener& listener)
    : fabric_(fabric), config_(config), listener_(listener) {}

Group::~Group() {
  end();
}

Result<std::unique_ptr<Group>> Group::create(fabric::Fabric& fabric, const GroupConfig& config,
                                             Listener& listener) {
  // A relay checks the configuration; this one is only asked and thrown away.
  const auto probe = relay::Relay::create({.algorithm = config.algorithm,
                                           .rank = config.rank,
                                           .members = config.members,
                                           .block_bytes = config.block_bytes,
                                           .max_writes_in_flight = config.max_writes_in_flight});
  if (!probe) return std::unexpected(probe.error());
  std::unique_ptr<Group> group(new Group(fabric, config, listener));
  for (const Rank peer : probe->schedule().neighbours()) {
    auto link = Link::create(fabric, peer, config.queue_pair);
    if (!link) return std::unexpected(link.error());
    group->links_.push_back(std::move(*link));
  }
  if (config.announce_lengths && !group->is_root()) {
    auto arena = memory::Arena::make(config.block_bytes);
    if (!arena) return std::unexpected(arena.error());
    group->arena_ = std::move(*arena);
    auto region = fabric.register_memory(group->arena_.bytes());
    if (!region) return std::unexpected(region.error());
    group->arena_region_ = std::move(*region);
    if (!fabric.info().pins_memory) {
      if (auto exchange = memory::PageExchange::make(config.block_bytes))
        group->exchange_ = std::move(*exchange);
    }
  }
  return group;
}

std::vector<std::pair<Rank, fabric::ConnectionBlob>> Group::local_blobs() const {
  std::vector<std::pair<Rank, fabric::ConnectionBlob>> blobs;
  for (const auto& link : links_) blobs.emplace_back(link->peer(), link->queue_pair().local_blob());
  return blobs;
}

Link* Group::link_to(Rank peer) {
  const auto found = std::ranges::find_if(links_, [&](const auto& link) { return link->peer() == peer; });
  return found == links_.end() ? nullptr : found->get();
}

Result<void> Group::connect(Rank peer, std::span<const std::byte> blob) {
  Link* const link = link_to(peer);
  if (link == nullptr)
    return rdmc::fail(Errc::invalid_argument, "not a neighbour: rank " + std::to_string(value_of(peer)));
  return link->connect(blob);
}

Group::Message* Group::find(std::uint64_t number) {
  const auto found = std::ranges::lower_bound(messages_, number, {}, &Message::number);
  return found == messages_.end() || found->number != number ? nullptr : &*found;
}

/// Of the messages that may be under way, the one whose number ends like this.
Group::Message* Group::find_by_low_bits(std::uint64_t low_bits, std::uint64_t mask) {
  return find(next_to_finish_ + ((low_bits - next_to_finish_) & mask));
}

Result<Group::Message*> Group::open(std::uint64_t number) {
  if (Message* const known = find(number)) return known;
  if (number < next_to_finish_)
    return rdmc::fail(Errc::protocol_error, "a frame for a message that is complete");
  auto relay = relay::Relay::create({.algorithm = config_.algorithm,
                                     .rank = config_.rank,
                                     .members = config_.members,
                                     .block_bytes = config_.block_bytes,
                                     .max_writes_in_flight = config_.max_writes_in_flight,
                                     .slot_id = static_cast<std::uint8_t>(number)});
  if (!relay) return std::unexpected(relay.error());
  const auto after = std::ranges::upper_bound(messages_, number, {}, &Message::number);
  return &*messages_.emplace(after, number, std::move(*relay));
}

Result<std::uint64_t> Group::begin(Store& store, std::uint64_t bytes) {
  if (failed_) return rdmc::fail(Errc::peer_failed, "the group's epoch has ended");
  auto message = open(next_number_);
  if (!message) return std::unexpected(message.error());
  if (auto attached = attach(**message, store, bytes); !attached) return std::unexpected(attached.error());
  return next_number_++;
}

Result<std::uint64_t> Group::send(Store& store, std::uint64_t bytes) {
  if (!is_root()) return rdmc::fail(Errc::invalid_argument, "only the root sends");
  return begin(store, bytes);
}

Result<std::uint64_t> Group::receive(Store& store, std::uint64_t bytes) {
  if (is_root() || config_.announce_lengths) {
    return rdmc::fail(Errc::invalid_argument,
                      "receive is for members of a group whose lengths are known beforehand");
  }
  return begin(store, bytes);
}

Result<void> Group::accept(std::uint64_t number, Store& store) {
  if (failed_) return rdmc::fail(Errc::peer_failed, "the group's epoch has ended");
  Message* const message = find(number);
  if (message == nullptr || !message->relay.has_length() || message->store != nullptr) {
    return rdmc::fail(Errc::invalid_argument, "no message " + std::to_string(number) + " waits for memory");
  }
  return attach(*message, store, message->relay.length());
}

// A refused store changes nothing: the caller may come with a better one.
Result<void> Group::attach(Message& message, Store& store, std::uint64_t bytes) {
  const std::uint64_t slots = store.slots();
  if (auto fits = message.relay.accepts(bytes, slots); !fits) return fits;
  const std::uint64_t needed = slots > bytes / config_.block_bytes ? bytes : slots * config_.block_bytes;
  if (store.memory().size() < needed) {
    return rdmc::fail(Errc::invalid_argument,
                      "the store's memory is smaller than its slots and than the message");
  }
  relay::Memory memory{.slots = slots};
  if (!is_root()) {
    // No more than the message takes: what lies behind it is not the peers' to write.
    auto region = fabric_.register_memory(store.memory().first(needed), fabric::MemoryUse::relayed);
    if (!region) return std::unexpected(region.error());
    message.region = std::move(*region);
    memory.remote_address = message.region->remote_address();
    memory.key = message.region->remote_key();
  } else if (fabric_.info().pins_memory && needed != 0) {
    auto region =
        fabric_.register_memory(store.memory().first(needed), fabric::MemoryUse::general, RemoteAccess::none);
    if (!region) return std::unexpected(region.error());
    message.region = std::move(*region);
  }
  if (auto set = message.relay.set_length(bytes); !set) return set;
  if (auto set = message.relay.set_memory(memory); !set) return set;
  message.store = &store;
  if (message.relay.first_block_in_arena()) place_first_block(message);
  return {};
}

// Not while a write of the last message's first block may still be sent, or sent again, from it.
bool Group::arena_is_free() {
  if (next_arena_ == 0) return true;
  const Message* const last = find(next_arena_ - 1);
  return last == nullptr || last->relay.arena_is_free();
}

// The arena is granted for the next message as soon as the last one's first block has left it, so that a
// message never waits for a round trip before its first block.
Result<void> Group::offer_arena() {
  auto message = open(next_arena_);
  if (!message) return std::unexpected(message.error());
  if (auto offered =
          (*message)->relay.offer_arena(arena_region_->remote_address(), arena_region_->remote_key());
      !offered) {
    return offered;
  }
  if (const auto source = (*message)->relay.schedule().first_source_of(config_.rank)) {
    link_to(*source)->queue_pair().expect_write(arena_.bytes().first(config_.block_bytes));
  }
  ++next_arena_;
  return {};
}

void Group::fail(std::optional<Rank> peer, const Error& error) {
  if (failed_) return;
  failed_ = true;
  for (Message& message : messages_) message.relay.cancel();
  listener_.failed(peer, error);
}

void Group::end() {
  failed_ = true;
  links_.clear();  // first: with its queue pairs gone, no write of a peer holds a region up
  for (Message& message : messages_) message.region.reset();
  arena_region_.reset();
  messages_.clear();
}

std::optional<Rank> Group::unconnected() const {
  for (const auto& link : links_)
    if (!link->is_connected()) return link->peer();
  return std::nullopt;
}

std::optional<relay::Wait> Group::wait() const {
  if (messages_.empty()) return std::nullopt;
  return messages_.front().relay.wait();
}

std::uint64_t Group::blocks_received(std::uint64_t number) const {
  const auto found = std::ranges::find(messages_, number, &Message::number);
  return found == messages_.end() ? 0 : found->relay.blocks_held();
}

}  // namespace rdmc::group

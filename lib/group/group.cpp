#include "lib/group/group.hpp"

#include <algorithm>
#include <cassert>

namespace rdmc::group {

Group::Group(Peers& peers, const GroupConfig& config, Observer& observer)
    : peers_(peers), config_(config), observer_(observer), small_window_(config.small_window) {}

relay::RelayConfig Group::relay_config(std::uint64_t number, const relay::MessagePlan& plan) const {
  return {
      .algorithm = plan.algorithm,
      .rank = config_.rank,
      .members = static_cast<std::uint32_t>(config_.members.size()),
      .racks = config_.racks,
      .block_bytes = plan.block_bytes,
      .max_writes_in_flight = config_.max_writes_in_flight,
      .slot_id = static_cast<std::uint16_t>(index_ * Peers::kSlotsPerGroup + number % Peers::kSlotsPerGroup),
      .stragglers = config_.stragglers};
}

Result<void> Group::check(const GroupConfig& config) {
  const auto refuse = [](const char* what) { return rdmc::fail(Errc::invalid_argument, what); };
  std::vector<PeerId> members = config.members;
  std::ranges::sort(members);
  if (members.empty()) return refuse("a group without members");
  if (std::ranges::adjacent_find(members) != members.end())
    return refuse("a group with the same member twice");
  if (config.confirms && !config.announce_lengths)
    return refuse("a group that confirms must announce lengths");
  if (config.stragglers > 0 && config.announce_lengths)
    return refuse("a group with stragglers must know the lengths beforehand");
  if (config.small_bytes > kMostSmallBytes) return refuse("small messages that fit no frame");
  if (config.read_only && !config.confirms) return refuse("a group that shows messages must confirm");
  if (!config.automatic) return {};
  const auto& [algorithm, block_bytes] = config.automatic->fixed;
  if (!config.confirms) return refuse("a group that chooses its algorithm must confirm");
  if (algorithm.value_or(config.algorithm) != config.algorithm ||
      block_bytes.value_or(config.block_bytes) != config.block_bytes)
    return refuse("messages that usually travel in a way that is not allowed");
  return {};
}

/// Makes the edges to all members from which blocks come and to which blocks go. If the group confirms, also
/// makes the edges along the tree. If the group is read_only, also makes the edges between the root and all
/// other members.
Result<void> Group::make_edges() {
  const auto members = static_cast<std::uint32_t>(config_.members.size());
  std::vector<Rank> ranks;
  for (const relay::Algorithm algorithm : algorithms_)
    std::ranges::copy(relay::Schedule(algorithm, config_.rank, members, config_.racks).neighbours(),
                      std::back_inserter(ranks));
  const Tree tree = Tree::of(config_.rank, members);
  if (config_.confirms) {
    ranks.insert(ranks.end(), tree.children.begin(), tree.children.end());
    if (tree.parent) ranks.push_back(*tree.parent);
  }
  if (config_.read_only && !is_root()) ranks.push_back(Rank{0});  // This member may map the root's memory.
  for (std::uint32_t rank = 1; config_.read_only && is_root() && rank < members; ++rank)
    ranks.push_back(Rank{rank});
  relay::sort_and_unite(ranks);
  for (const Rank rank : ranks) {
    const PeerId peer = config_.members[value_of(rank)];
    if (config_.survives && !peers_.is_connected(peer)) {
      edges_.push_back({.rank = rank});  // An edge without a link makes the group fail in its first turn.
      continue;
    }
    if (config_.connected_only && !peers_.is_connected(peer))
      return rdmc::fail(Errc::peer_failed, "not connected to member " + std::to_string(value_of(peer)));
    const auto link = peers_.link_to(peer);
    if (!link) return std::unexpected(link.error());
    edges_.push_back({.rank = rank, .link = *link});
  }
  if (!config_.confirms) return {};
  const auto edge = [&](Rank rank) { return static_cast<std::size_t>(find(rank) - edges_.data()); };
  if (tree.parent) tree_parent_ = edge(*tree.parent);
  for (const Rank child : tree.children) tree_children_.push_back(edge(child));
  confirmation_ = Confirmation(is_root(), tree_children_.size());
  return {};
}

Result<std::unique_ptr<Group>> Group::create(Peers& peers, const GroupConfig& config, Observer& observer) {
  if (auto fits = check(config); !fits) return std::unexpected(fits.error());
  std::unique_ptr<Group> group(new Group(peers, config, observer));
  // The relay checks the remaining options. This relay is made only for that check.
  const auto probe = relay::Relay::create(group->relay_config(0, group->usual_plan()));
  if (!probe) return std::unexpected(probe.error());
  group->algorithms_ = config.automatic ? relay::auto_algorithms(*config.automatic, config.racks)
                                        : std::vector{config.algorithm};
  if (auto linked = group->make_edges(); !linked) return std::unexpected(linked.error());
  if (config.automatic && group->is_root())
    group->auto_plan_.emplace(*config.automatic, static_cast<std::uint32_t>(config.members.size()),
                              config.racks);
  if (group->grants_ahead()) {
    auto arena = peers.fabric().make_arena(config.block_bytes);
    if (!arena) return std::unexpected(arena.error());
    group->arena_ = std::move(*arena);
    auto region = peers.fabric().register_memory(group->arena_.bytes());
    if (!region) return std::unexpected(region.error());
    group->arena_region_ = std::move(*region);
  }
  const auto index = peers.add(*group);
  if (!index) return std::unexpected(index.error());
  group->index_ = *index;
  group->added_ = true;
  return group;
}

std::vector<Rank> Group::neighbours() const {
  std::vector<Rank> ranks;
  for (const Edge& edge : edges_) ranks.push_back(edge.rank);
  return ranks;
}

Group::Edge* Group::find(Rank rank) {
  const auto found = std::ranges::lower_bound(edges_, rank, {}, &Edge::rank);
  return found == edges_.end() || found->rank != rank ? nullptr : &*found;
}

const Group::Edge* Group::find(const Link& link) const {
  const auto found = std::ranges::find(edges_, &link, &Edge::link);
  return found == edges_.end() ? nullptr : &*found;
}

Group::Edge* Group::find(const Link& link) {
  return const_cast<Edge*>(std::as_const(*this).find(link));
}

Group::Message* Group::find(std::uint64_t number) {
  const auto found = std::ranges::lower_bound(messages_, number, {}, &Message::number);
  return found == messages_.end() || found->number != number ? nullptr : &*found;
}

/// Finds the message whose number has these low bits, among the messages that may be in progress.
Group::Message* Group::find_by_low_bits(std::uint64_t low_bits, std::uint64_t mask) {
  return find(next_to_finish_ + ((low_bits - next_to_finish_) & mask));
}

Result<Group::Message*> Group::open(std::uint64_t number, const relay::MessagePlan& plan) {
  if (Message* const known = find(number)) return known;
  if (number < next_to_finish_)
    return rdmc::fail(Errc::protocol_error, "a frame for a message that is complete");
  auto relay = relay::Relay::create(relay_config(number, plan));
  if (!relay) return std::unexpected(relay.error());
  const auto after = std::ranges::upper_bound(messages_, number, {}, &Message::number);
  return &*messages_.emplace(after, number, plan, std::move(*relay));
}

Result<void> Group::may_send() const {
  if (!is_root()) return rdmc::fail(Errc::invalid_argument, "only the root sends");
  if (phase_ != Phase::open) return rdmc::fail(Errc::peer_failed, "the group's epoch has ended");
  if (closing_) return rdmc::fail(Errc::cancelled, "the group is being closed");
  return {};
}

Result<std::uint64_t> Group::begin(Store& store, std::uint64_t bytes, const relay::MessagePlan& plan) {
  // True if another member has already granted memory for this message.
  const bool is_known = find(next_number_) != nullptr;
  auto message = open(next_number_, plan);
  if (!message) return std::unexpected(message.error());
  if (auto attached = attach(**message, store, bytes); !attached) {
    // Forget the plan of this message. The root may use its number for another message with another plan.
    if (is_root() && !is_known)
      std::erase_if(messages_, [this](const Message& m) { return m.number == next_number_; });
    return std::unexpected(attached.error());
  }
  return next_number_++;
}

Result<std::uint64_t> Group::send(Store& store, std::uint64_t bytes, std::optional<relay::MessagePlan> plan) {
  if (auto may = may_send(); !may) return std::unexpected(may.error());
  const bool is_alone = stable_ == next_number_;
  const auto number = begin(store, bytes, plan.value_or(usual_plan()));
  if (number && auto_plan_) count_sent(*number, bytes, plan.value_or(usual_plan()), is_alone);
  return number;
}

Result<std::uint64_t> Group::receive(Store& store, std::uint64_t bytes) {
  if (is_root() || config_.announce_lengths) {
    return rdmc::fail(Errc::invalid_argument,
                      "receive is for members of a group whose lengths are known beforehand");
  }
  if (phase_ != Phase::open) return rdmc::fail(Errc::peer_failed, "the group's epoch has ended");
  return begin(store, bytes, usual_plan());
}

Result<void> Group::accept(std::uint64_t number, Store& store) {
  if (phase_ != Phase::open) return rdmc::fail(Errc::peer_failed, "the group's epoch has ended");
  Message* const message = find(number);
  if (message == nullptr || !message->relay.has_length() || message->store != nullptr) {
    return rdmc::fail(Errc::invalid_argument, "no message " + std::to_string(number) + " waits for memory");
  }
  return attach(*message, store, message->relay.length());
}

// A refused store changes nothing, so the caller may try again with another store.
Result<void> Group::attach(Message& message, Store& store, std::uint64_t bytes) {
  const std::uint64_t slots = store.slots();
  if (auto fits = message.relay.accepts(bytes, slots); !fits) return fits;
  const std::uint64_t block_bytes = message.plan.block_bytes;
  const std::uint64_t needed = slots > bytes / block_bytes ? bytes : slots * block_bytes;
  if (store.memory().size() < needed) {
    return rdmc::fail(Errc::invalid_argument,
                      "the store's memory is smaller than its slots and than the message");
  }
  relay::Memory memory{.slots = slots};
  if (!is_root()) {
    // Registers only the bytes that the message needs. Peers must not write the bytes after them.
    auto region = peers_.fabric().register_memory(store.memory().first(needed), fabric::MemoryUse::relayed);
    if (!region) return std::unexpected(region.error());
    message.region = std::move(*region);
    memory.remote_address = message.region->remote_address();
    memory.key = message.region->remote_key();
  } else if (peers_.fabric().info().pins_memory && needed != 0) {
    auto region = peers_.fabric().register_memory(store.memory().first(needed), fabric::MemoryUse::general,
                                                  RemoteAccess::none);
    if (!region) return std::unexpected(region.error());
    message.region = std::move(*region);
  }
  if (auto set = message.relay.set_length(bytes); !set) return set;
  if (auto set = message.relay.set_memory(memory); !set) return set;
  message.store = &store;
  if (message.relay.first_block_in_arena())
    place_first_block(message, false);
  else if (message.relay.first_block_awaited())
    spare_arena(message);
  return {};
}

std::optional<relay::Wait> Group::wait() const {
  if (messages_.empty()) return std::nullopt;
  return messages_.front().relay.wait();
}

std::vector<Rank> Group::find_lagging() {
  return messages_.empty() ? std::vector<Rank>() : messages_.front().relay.find_lagging();
}

std::uint64_t Group::blocks_received(std::uint64_t number) const {
  const auto found = std::ranges::find(messages_, number, &Message::number);
  return found == messages_.end() ? 0 : found->relay.blocks_held();
}

std::vector<Group::Partial> Group::partial_messages() const {
  std::vector<Partial> partial;
  for (const Message& message : messages_) {
    if (message.number >= next_to_deliver_ && message.store != nullptr && !is_root())
      partial.push_back({message.number, message.relay.length(), message.relay.held()});
  }
  return partial;
}

}  // namespace rdmc::group

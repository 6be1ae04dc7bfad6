#include "dataplane/fabric/host_identity.hpp"
#include "lib/group/node_state.hpp"

namespace rdmc {
namespace {

constexpr Duration kKeepalive = milliseconds(150);
constexpr std::uint32_t kRingBytes = 256 * 1024;

group::PeerId peer_of(NodeId node) {
  return group::PeerId{value_of(node)};
}

/// Returns the rack of each member as the application names it. Errors: invalid_argument if there are not as
/// many racks as members.
Result<group::RackOf> racks_of(const std::vector<NodeId>& members, const std::vector<std::uint32_t>& racks) {
  if (!racks.empty() && racks.size() != members.size())
    return fail(Errc::invalid_argument, "racks of " + std::to_string(racks.size()) +
                                            " members in a group of " + std::to_string(members.size()));
  group::RackOf rack_of;
  for (std::size_t i = 0; i < racks.size(); ++i) rack_of[members[i]] = racks[i];
  return rack_of;
}

/// The assumed parameters of the paths, before a message was measured.
relay::PathParameters guess_of(const relay::Racks& hosts) {
  if (hosts.all().size() != 1) return {};
  return {.bits_per_second = 5e10, .start_seconds = 10e-6, .block_seconds = 3e-6, .hop_seconds = 5e-6};
}

}  // namespace

std::shared_ptr<Context> make_context(const ContextOptions& options) {
  return std::make_shared<Context>(peer::ContextOptions{.threads = options.threads});
}

std::shared_ptr<Context> process_context() {
  return peer::Context::of_process();
}

void set_most_fabric_threads(Context& context, std::size_t most) {
  context.set_most_threads(most);
}

std::size_t fabric_threads(const Context& context) {
  return context.threads();
}

Result<std::unique_ptr<Node>> Node::create(const NodeOptions& options) {
  peer::FabricThreadOptions wanted{.fabric = options.fabric,
                                   .address = options.address,
                                   .device = options.device,
                                   .encrypt = options.encrypt,
                                   .own_thread = options.own_thread};
  wanted.idle.busy_poll = options.busy_poll;
  const auto context = options.context ? options.context : peer::Context::of_process();
  auto thread = options.own_thread ? context->fabric_thread(wanted) : peer::FabricThread::open(wanted);
  if (!thread) return std::unexpected(thread.error());
  auto state = std::make_unique<State>();
  state->options = options;
  state->options.context = context;
  state->peers = std::make_unique<group::Peers>(
      (*thread)->fabric(),
      group::PeersConfig{.link = {.ring_bytes = kRingBytes, .host = fabric::host_identity()},
                         .keepalive = kKeepalive,
                         .early = {.patience = options.creation_timeout},
                         .counts = &state->counts});
  state->join(std::move(*thread));
  return std::unique_ptr<Node>(new Node(std::move(state)));
}

Node::Node(std::unique_ptr<State> state) : state_(std::move(state)) {}
Node::~Node() = default;

NodeId Node::id() const {
  return state_->options.id;
}

bool Node::has_own_thread() const {
  return state_->options.own_thread;
}

const std::shared_ptr<Context>& Node::context() const {
  return state_->options.context;
}

NodeCounters Node::counters() const {
  const group::NodeCounts& counts = state_->counts;
  return {.messages_sent = counts.messages_sent,
          .bytes_sent = counts.bytes_sent,
          .messages_delivered = counts.messages_delivered,
          .bytes_delivered = counts.bytes_delivered,
          .groups_made = counts.groups_made,
          .groups_failed = counts.groups_failed,
          .groups_continued = counts.groups_continued,
          .connections_made = counts.connections_made,
          .connections_ended = counts.connections_ended};
}

bool Node::encrypts() const {
  return state_->options.encrypt;
}

Result<void> Node::poll(Duration longest) {
  return state_->thread->turn(longest);
}

Result<int> Node::descriptor() {
  return state_->thread->descriptor();
}

Result<std::vector<std::byte>> Node::offer(NodeId peer) {
  if (peer == id()) return fail(Errc::invalid_argument, "a node needs no connection to itself");
  return state_->in_engine([&] { return state_->peers->offer(peer_of(peer)); });
}

Result<void> Node::connect(NodeId peer, std::span<const std::byte> offered) {
  return state_->in_engine([&] { return state_->peers->connect(peer_of(peer), offered); });
}

bool Node::is_connected(NodeId peer) const {
  return state_->in_engine([&]() -> Result<bool> { return state_->peers->is_connected(peer_of(peer)); })
      .value_or(false);
}

void Node::disconnect(NodeId peer) {
  const auto task = [state = state_.get(), peer] {
    state->peers->disconnect(peer_of(peer), {Errc::cancelled, "disconnected"});
  };
  if (state_->options.own_thread || state_->thread->is_current()) return state_->in_engine(task);
  static_cast<void>(state_->thread->post(task));
}

Result<void> Node::create_group(GroupNumber number, std::vector<NodeId> members, NodeId root,
                                const GroupOptions& options, GroupCallbacks callbacks) {
  if (options.algorithm && !relay::algorithm_of(static_cast<std::uint32_t>(*options.algorithm)))
    return fail(Errc::invalid_argument, "no such algorithm");
  if (options.read_only && options.can_continue)
    return fail(Errc::invalid_argument, "what is shown read-only nobody keeps, to continue with");
  if (options.read_only && id() != root && !callbacks.mapped)
    return fail(Errc::invalid_argument, "read_only without mapped()");
  const bool is_automatic = !options.algorithm.has_value();
  const bool hosts_count = options.racks.empty() && (is_automatic || relay::is_for_hosts(*options.algorithm));
  auto rack_of = hosts_count
                     ? state_->in_engine([&] { return group::hosts_of(members, id(), *state_->peers); })
                     : racks_of(members, options.racks);
  if (!rack_of) return std::unexpected(rack_of.error());
  const auto ranking = group::by_rank(std::move(members), root, id(), *rack_of);
  if (!ranking) return std::unexpected(ranking.error());
  const auto& ranks = ranking->members;
  group::GroupConfig config{
      .name = {.number = value_of(number), .epoch = options.epoch},
      .rank = Rank{static_cast<std::uint32_t>(std::ranges::find(ranks, id()) - ranks.begin())},
      .members = {},
      .algorithm = options.algorithm.value_or(relay::Algorithm::binomial_pipeline),
      .racks = ranking->racks,
      .block_bytes = options.block_bytes == 0 ? kUsualBlockBytes : options.block_bytes,
      .connected_only = true,
      .confirms = true,
      .small_bytes = options.small_bytes,
      .read_only = options.read_only,
      .memory_patience = options.receive_timeout};
  for (const NodeId member : ranks) config.members.push_back(peer_of(member));
  if (is_automatic) {
    relay::AutoConfig& automatic = config.automatic.emplace(
        relay::AutoConfig{.racks_are_hosts = hosts_count, .guess = guess_of(ranking->racks)});
    if (options.block_bytes != 0 || options.can_continue) automatic.fixed.block_bytes = config.block_bytes;
  }
  if (options.joins && !options.can_continue)
    return fail(Errc::invalid_argument, "nobody joins a group that was not made to be continued");
  return state_->in_engine([&]() -> Result<void> {
    if (state_->find(number))
      return fail(Errc::already_exists,
                  "group " + std::to_string(value_of(number)) + " is in use: destroy it first");
    const auto made = std::make_shared<group::NodeGroup>(ranks, std::move(*rack_of), options.can_continue,
                                                         std::move(callbacks), state_->some_changed,
                                                         state_->counts, hosts_count);
    auto opened = options.joins ? made->join(*state_->peers, config) : made->open(*state_->peers, config);
    if (!opened) return opened;
    const std::lock_guard lock(state_->mutex);
    state_->groups[number] = made;
    state_->counts.groups_made += 1;
    return {};
  });
}

Result<std::uint64_t> Node::send(GroupNumber number, std::span<const std::byte> bytes) {
  return state_->command(number, [&](group::NodeGroup& group) { return group.send(bytes); });
}

Result<void> Node::tell_root(GroupNumber number, std::span<const std::byte> note) {
  return state_->command(number, [&](group::NodeGroup& group) {
    return group.tell_root(std::vector(note.begin(), note.end()));
  });
}

Result<void> Node::release(GroupNumber number, std::uint64_t message) {
  return state_->command(number, [&](group::NodeGroup& group) { return group.release(message); });
}

Result<SharedMemory> Node::allocate(std::size_t bytes) {
  auto arena = state_->thread->make_arena(bytes);
  if (!arena) return std::unexpected(arena.error());
  const auto keeper = std::make_shared<memory::Arena>(std::move(*arena));
  return SharedMemory{keeper->bytes().first(bytes), keeper};
}

Result<void> Node::post_receive_buffer(GroupNumber number, std::span<std::byte> buffer) {
  return state_->command(number, [&](group::NodeGroup& group) { return group.post(buffer); });
}

Result<void> Node::continue_group(GroupNumber number, std::uint64_t epoch, std::vector<NodeId> survivors,
                                  NodeId root) {
  return state_->in_engine([&]() -> Result<void> {
    const auto group = state_->find(number);
    if (!group) return no_group(number);
    return group->continue_as(epoch, std::move(survivors), root, id());
  });
}

Result<std::uint64_t> Node::epoch(GroupNumber number) const {
  return state_->in_engine([&]() -> Result<std::uint64_t> {
    const auto group = state_->find(number);
    if (!group) return no_group(number);
    return group->epoch();
  });
}

Result<void> Node::destroy_group(GroupNumber number, std::function<void(Result<void>)> destroyed) {
  return state_->command(number,
                         [&](group::NodeGroup& group) { return group.destroy(std::move(destroyed)); });
}

}  // namespace rdmc

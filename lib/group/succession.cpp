#include "lib/group/succession.hpp"

#include <algorithm>
#include <utility>

#include "lib/group/memory_store.hpp"

namespace rdmc::group {
namespace {

constexpr std::uint64_t kPlanPart = 1, kFirstRoundPart = 2;
/// The plan group's messages: the first says nothing, but whoever has not made the group in time is found
/// out.
enum PlanMessage : std::uint64_t { opening, plan };
constexpr std::uint64_t kMostPlanBytes = 64 << 20;
constexpr std::uint64_t kLeastSlots = 8;  // of a round's ring

}  // namespace

/// All survivors; the new root sends the plan. Its closing barrier is the succession's.
struct Succession::PlanPart final : Part {
  using Part::Part;
  ~PlanPart() override { group.reset(); }  // before its memory
  Store* incoming(std::uint64_t message, std::uint64_t length) override {
    if (message > plan || length > kMostPlanBytes) {
      group->give_up({Errc::protocol_error, "a plan that cannot be"});
      return nullptr;
    }
    return &hold(message, std::vector<std::byte>(length));
  }
  Store& hold(std::uint64_t message, std::vector<std::byte> content) {
    bytes[message] = std::move(content);
    return stores[message].emplace(bytes[message], bytes[message].size(), group->config().block_bytes);
  }
  void send(std::uint64_t message, std::vector<std::byte> content) {
    Store& store = hold(message, std::move(content));
    (void)group->send(store, bytes[message].size());  // refused only when it has failed
  }
  void delivered(std::uint64_t message) override {
    if (message == plan && !succession.is_root()) succession.take_plan(bytes[plan]);
  }
  void completed(std::uint64_t) override {}
  void told(Rank from, std::span<const std::byte> note) override { succession.told(from, note); }
  void failed(std::optional<Rank> member, const Error& error) override {
    succession.fail(error.code == Errc::cancelled ? std::nullopt : member, error, true);
  }

  std::vector<std::byte> bytes[2];
  std::optional<MemoryStore> stores[2];
};

/// A source and those who lack some of what it sends.
struct Succession::RoundPart final : Part {
  RoundPart(Succession& s, const relay::Round& round) : Part(s) {
    ranks.push_back(Rank{static_cast<std::uint32_t>(round.source)});
    for (const std::size_t rank : round.receivers) ranks.push_back(Rank{static_cast<std::uint32_t>(rank)});
  }
  ~RoundPart() override { group.reset(); }  // before its memory
  Store* incoming(std::uint64_t message, std::uint64_t length) override {
    if (message == 0 && length == store->size()) return &*store;
    succession.fail(ranks.front(), {Errc::protocol_error, "a round that is not as planned"}, true);
    return nullptr;
  }
  void delivered(std::uint64_t) override { (void)group->close(); }
  void completed(std::uint64_t) override {}
  void failed(std::optional<Rank> member, const Error& error) override {
    if (error.code == Errc::cancelled) member.reset();  // whoever wished the end is not to blame
    succession.fail(member ? std::optional(ranks[value_of(*member)]) : std::nullopt, error, true);
  }

  std::vector<Rank> ranks;  // in the successor, by rank in the round
  memory::Arena ring;
  std::optional<RecoveryStore> store;
};

Succession::Succession(Peers& peers, const SuccessionConfig& config, Survivor& survivor)
    : peers_(peers), config_(config), survivor_(survivor) {}

/// A part that is destroyed early may take links with it that others use: nobody is told any more.
Succession::~Succession() {
  over_ = released_ = true;
}

GroupConfig Succession::group_config(std::uint64_t part) const {
  GroupConfig config{.name = config_.name, .rank = config_.rank, .members = config_.members};
  config.name.part = part;
  config.block_bytes = config_.block_bytes;
  config.survives = true;
  config.confirms = true;
  config.small_bytes = 0;
  return config;
}

Result<std::unique_ptr<Succession>> Succession::create(Peers& peers, const SuccessionConfig& config,
                                                       Survivor& survivor) {
  std::unique_ptr<Succession> made(new Succession(peers, config, survivor));
  made->plan_ = std::make_unique<PlanPart>(*made);
  GroupConfig plan_config = made->group_config(kPlanPart);
  plan_config.watches = true;
  plan_config.memory_patience = config.memory_patience;
  auto group = Group::create(peers, plan_config, *made->plan_);
  if (!group) return std::unexpected(group.error());
  made->plan_->group = std::move(*group);
  return made;
}

void Succession::begin() {
  SurvivorState state = survivor_.survivor_state();
  state.members = config_.members;
  if (!is_root()) return plan_->group->tell_root(state.encode());
  states_.resize(config_.members.size());
  states_.front() = std::move(state);
  plan_->send(opening, {});
  plan_if_all_told();
}

void Succession::told(Rank from, std::span<const std::byte> bytes) {
  auto state = SurvivorState::decode(bytes, config_.block_bytes);
  auto& known = states_[value_of(from)];
  if (!state) return fail(from, state.error(), true);
  if (known) return fail(from, {Errc::protocol_error, "a survivor that tells its state twice"}, true);
  known = std::move(*state);
  plan_if_all_told();
}

void Succession::plan_if_all_told() {
  std::vector<SurvivorState> states;
  for (const auto& state : states_) {
    if (!state) return;
    states.push_back(*state);
  }
  const auto planned = plan_recovery(states);
  if (!planned) return fail(std::nullopt, planned.error(), true);
  plan_->send(plan, planned->encode());
  if (auto running = run(*planned); !running) fail(config_.rank, running.error(), true);
}

void Succession::take_plan(std::span<const std::byte> bytes) {
  const auto members = static_cast<std::uint32_t>(config_.members.size());
  const auto decoded = RecoveryPlan::decode(bytes, members, config_.block_bytes);
  if (!decoded) return fail(Rank{0}, decoded.error(), true);
  if (auto running = run(*decoded); !running) fail(config_.rank, running.error(), true);
}

Result<void> Succession::run(const RecoveryPlan& plan) {
  if (over_) return {};
  if (auto ready = survivor_.on_plan(plan); !ready || over_) return ready;
  for (std::size_t i = 0; i < plan.lengths.size(); ++i) {
    const std::uint64_t message = plan.first + i;
    if (plan.lengths[i] == 0 && !survivor_.has_block(message, 0)) survivor_.recovered(message, 0);
  }
  for (std::size_t index = 0; index < plan.rounds.size(); ++index) {
    if (auto started = start_round(index, plan); !started || over_) return started;
  }
  running_ = true;
  go_on();
  return {};
}

Result<void> Succession::start_round(std::size_t index, const RecoveryPlan& plan) {
  const relay::Round& round = plan.rounds[index];
  auto part = std::make_unique<RoundPart>(*this, round);
  const auto own = std::ranges::find(part->ranks, config_.rank);
  if (own == part->ranks.end()) return {};
  GroupConfig config = group_config(kFirstRoundPart + index);
  config.rank = Rank{static_cast<std::uint32_t>(own - part->ranks.begin())};
  config.members.clear();
  for (const Rank rank : part->ranks) config.members.push_back(config_.members[value_of(rank)]);
  const bool is_source = value_of(config.rank) == 0;

  const auto members = static_cast<std::uint32_t>(config.members.size());
  const std::uint64_t slots =
      std::max(kLeastSlots, relay::Schedule(config.algorithm, config.rank, members).minimum_slots());
  auto ring = peers_.fabric().make_arena(slots * config_.block_bytes);
  if (!ring) return std::unexpected(ring.error());
  part->ring = std::move(*ring);
  RecoveryStore::Recovered recovered;
  if (!is_source) recovered = [this](auto message, auto block) { survivor_.recovered(message, block); };
  part->store.emplace(pieces_of(round, plan), part->ring.bytes(), slots, config_.block_bytes,
                      std::move(recovered));

  auto group = Group::create(peers_, config, *part);
  if (!group) return std::unexpected(group.error());
  part->group = std::move(*group);
  RoundPart& made = *rounds_.emplace_back(std::move(part));
  if (!is_source) return {};
  if (auto sent = made.group->send(*made.store, made.store->size()); !sent)
    return std::unexpected(sent.error());
  return made.group->close();
}

std::vector<RecoveryStore::Piece> Succession::pieces_of(const relay::Round& round,
                                                        const RecoveryPlan& plan) const {
  std::vector<RecoveryStore::Piece> pieces;
  std::uint64_t message = plan.first, begin = 0;  // and where its blocks begin in the row
  for (const auto& range : round.blocks.ranges()) {
    for (std::uint64_t at = range.begin; at < range.end; ++at) {
      const auto blocks = [&] { return blocks_of(plan.lengths[message - plan.first], config_.block_bytes); };
      for (; at - begin >= blocks(); ++message) begin += blocks();
      const std::uint64_t block = at - begin;
      const auto bytes = survivor_.bytes_of(message).subspan(block * config_.block_bytes);
      if (bytes.empty()) continue;
      pieces.push_back({.bytes = bytes.first(std::min<std::size_t>(bytes.size(), config_.block_bytes)),
                        .message = message,
                        .block = block,
                        .is_wanted = !survivor_.has_block(message, block)});
    }
  }
  return pieces;
}

/// From whatever has ended to what comes next.
void Succession::go_on() {
  const auto is_done = [](const auto& round) { return round->group->is_released(); };
  if (!running_ || recovered_ || over_ || !std::ranges::all_of(rounds_, is_done)) return;
  recovered_ = true;
  survivor_.all_recovered();
}

void Succession::finish() {
  (void)plan_->group->close();  // refused only when it has failed
}

void Succession::set_memory_awaited(bool awaited) {
  plan_->group->set_memory_awaited(awaited);
}

void Succession::part_released() {
  go_on();
  if (!over_ && plan_->group->is_closed()) {
    over_ = true;
    survivor_.succeeded();
  }
  if (over_ && !released_ && is_released()) {
    released_ = true;
    survivor_.succession_released();
  }
}

bool Succession::is_released() const {
  const auto is_done = [](const auto& part) { return part->group->is_released(); };
  return over_ && is_done(plan_) && std::ranges::all_of(rounds_, is_done);
}

void Succession::fail(std::optional<Rank> member, const Error& error, bool tells) {
  if (std::exchange(over_, true)) return;
  plan_->group->give_up_on(member, error);
  for (const auto& round : rounds_) round->group->end(error);
  if (tells) survivor_.succession_failed(member, error);
}

}  // namespace rdmc::group

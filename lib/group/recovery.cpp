#include "lib/group/recovery.hpp"

#include <algorithm>
#include <utility>

namespace rdmc::group {
namespace {

constexpr std::uint64_t kFirstRoundPart = 1;
/// The first messages of the epoch's group. A member accepts `settled` when it has everything.
enum OpeningMessage : std::uint64_t { opening, plan, settled, kOpeningMessages };
constexpr std::uint64_t kMostPlanBytes = 64 << 20;
constexpr std::uint64_t kLeastSlots = 8;  // The minimum number of slots in a round's ring.

}  // namespace

/// This member's part in one round: a group of a source and of the members that lack some of what the source
/// sends.
struct Recovery::RoundPart final : Observer {
  RoundPart(Recovery& s, const relay::Round& round) : recovery(s) {
    std::vector<std::size_t> members{round.source};
    members.insert(members.end(), round.receivers.begin(), round.receivers.end());
    std::vector<std::uint32_t> labels;
    for (const std::size_t member : members) labels.push_back(s.rack_of(member));
    const relay::RankOrder by_rack = relay::order_by_rack(labels);
    for (const std::size_t at : by_rack.order) ranks.push_back(Rank{static_cast<std::uint32_t>(members[at])});
    racks = by_rack.racks;
  }
  Store* incoming(std::uint64_t message, std::uint64_t length) override {
    if (message == 0 && length == store->size()) return &*store;
    recovery.group_->give_up_on(ranks.front(), {Errc::protocol_error, "a round that is not as planned"});
    return nullptr;
  }
  void delivered(std::uint64_t) override { (void)group->close(); }
  void completed(std::uint64_t) override {}
  void failed(std::optional<Rank> member, const Error& error) override {
    if (member) member = ranks[value_of(*member)];
    // The epoch has ended. The epoch's own group learns the reason by itself.
    if (error.code == Errc::cancelled && member && recovery.is_connected(*member)) return;
    recovery.group_->give_up_on(member, error);
  }
  void released() override { recovery.part_released(); }

  Recovery& recovery;
  std::vector<Rank> ranks;  // The ranks in the new epoch, indexed by rank in the round.
  relay::Racks racks;
  memory::Arena ring;
  std::optional<RecoveryStore> store;
  std::unique_ptr<Group> group;  // Destroyed before its memory.
};

Recovery::Recovery(const GroupConfig& config, Peers& peers, Survivor& survivor)
    : config_(config), peers_(peers), survivor_(survivor) {}

/// A round's group that is destroyed early may close links that other groups use. This must not lead to an
/// upcall.
Recovery::~Recovery() {
  over_ = released_ = true;
}

Result<std::unique_ptr<Recovery>> Recovery::create(Peers& peers, GroupConfig config, Survivor& survivor) {
  config.survives = true;
  std::unique_ptr<Recovery> made(new Recovery(config, peers, survivor));
  auto group = Group::create(peers, config, *made);
  if (!group) return std::unexpected(group.error());
  made->group_ = std::move(*group);
  made->group_->set_watching(true);
  made->group_->set_memory_awaited(false);
  return made;
}

void Recovery::begin() {
  SurvivorState state = survivor_.survivor_state();
  state.members = config_.members;
  if (!is_root()) return group_->tell_root(state.encode());
  states_.resize(config_.members.size());
  states_.front() = std::move(state);
  // Like all sends below, this send is refused only if the group has failed.
  (void)group_->send_small({});
  plan_if_all_told();
}

void Recovery::told(Rank from, std::span<const std::byte> bytes) {
  if (open_) return survivor_.told(from, bytes);
  auto state = SurvivorState::decode(bytes, config_.block_bytes);
  auto& known = states_[value_of(from)];
  if (!state) return group_->give_up_on(from, state.error());
  if (known) return group_->give_up_on(from, {Errc::protocol_error, "a survivor that tells its state twice"});
  known = std::move(*state);
  plan_if_all_told();
}

void Recovery::plan_if_all_told() {
  std::vector<SurvivorState> states;
  for (const auto& state : states_) {
    if (!state) return;
    states.push_back(*state);
  }
  const auto planned = plan_recovery(states);
  if (!planned) return group_->give_up_on(std::nullopt, planned.error());
  Store& store = hold_plan(planned->encode());
  (void)group_->send(store, plan_bytes_.size());
  if (auto running = run(*planned); !running) group_->give_up(running.error());
}

void Recovery::take_plan() {
  const auto members = static_cast<std::uint32_t>(config_.members.size());
  const auto decoded = RecoveryPlan::decode(plan_bytes_, members, config_.block_bytes);
  if (!decoded) return group_->give_up_on(Rank{0}, decoded.error());
  if (auto running = run(*decoded); !running) group_->give_up(running.error());
}

Store& Recovery::hold_plan(std::vector<std::byte> bytes) {
  plan_bytes_ = std::move(bytes);
  return plan_store_.emplace(plan_bytes_, plan_bytes_.size(), config_.block_bytes);
}

Result<void> Recovery::run(const RecoveryPlan& planned) {
  if (over_) return {};
  offset_ = planned.end() - kOpeningMessages;
  if (auto ready = survivor_.on_plan(planned); !ready || over_) return ready;
  for (std::size_t i = 0; i < planned.lengths.size(); ++i) {
    const std::uint64_t message = planned.first + i;
    if (planned.lengths[i] == 0 && !survivor_.has_block(message, 0)) survivor_.recovered(message, 0);
  }
  for (std::size_t index = 0; index < planned.rounds.size(); ++index) {
    if (auto started = start_round(index, planned); !started || over_) return started;
  }
  running_ = true;
  go_on();
  return {};
}

std::uint32_t Recovery::rack_of(std::size_t rank) const {
  const auto number = static_cast<std::uint32_t>(rank);
  return config_.racks.is_known() ? static_cast<std::uint32_t>(config_.racks.index_of(number)) : 0;
}

/// Returns the algorithm of the rounds. If the algorithm of the group's messages sends little over the links
/// of hosts or over the uplinks of racks, this algorithm does so, too.
relay::Algorithm Recovery::round_algorithm() const {
  using enum relay::Algorithm;
  const bool are_hosts =
      config_.automatic ? config_.automatic->racks_are_hosts : relay::is_for_hosts(config_.algorithm);
  const bool are_racks = config_.automatic || config_.algorithm == hybrid;
  return are_hosts ? host_pipeline : are_racks ? hybrid : binomial_pipeline;
}

Result<void> Recovery::start_round(std::size_t index, const RecoveryPlan& planned) {
  const relay::Round& round = planned.rounds[index];
  auto part = std::make_unique<RoundPart>(*this, round);
  const auto own = std::ranges::find(part->ranks, config_.rank);
  if (own == part->ranks.end()) return {};
  GroupConfig config{.name = config_.name,
                     .rank = Rank{static_cast<std::uint32_t>(own - part->ranks.begin())},
                     .members = {},
                     .algorithm = round_algorithm(),
                     .racks = part->racks,
                     .block_bytes = config_.block_bytes,
                     .confirms = true,
                     .small_bytes = 0,
                     .survives = true};
  config.name.part = kFirstRoundPart + index;
  for (const Rank rank : part->ranks) config.members.push_back(config_.members[value_of(rank)]);
  const bool is_source = value_of(config.rank) == 0;

  const auto members = static_cast<std::uint32_t>(config.members.size());
  const std::uint64_t slots = std::max(
      kLeastSlots, relay::Schedule(config.algorithm, config.rank, members, config.racks).minimum_slots());
  auto ring = peers_.fabric().make_arena(slots * config_.block_bytes);
  if (!ring) return std::unexpected(ring.error());
  part->ring = std::move(*ring);
  RecoveryStore::Recovered recovered;
  if (!is_source) recovered = [this](auto message, auto block) { survivor_.recovered(message, block); };
  part->store.emplace(pieces_of(round, planned), part->ring.bytes(), slots, config_.block_bytes,
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

std::vector<RecoveryStore::Piece> Recovery::pieces_of(const relay::Round& round,
                                                      const RecoveryPlan& planned) const {
  std::vector<RecoveryStore::Piece> pieces;
  std::uint64_t message = planned.first,
                begin = 0;  // `begin` is the row number of the message's first block.
  for (const auto& range : round.blocks.ranges()) {
    for (std::uint64_t at = range.begin; at < range.end; ++at) {
      const auto blocks = [&] {
        return relay::block_count(planned.lengths[message - planned.first], config_.block_bytes);
      };
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

/// Begins the next step if everything before it has ended.
void Recovery::go_on() {
  const auto is_done = [](const auto& round) { return round->group->is_released(); };
  if (!running_ || recovered_ || over_ || !std::ranges::all_of(rounds_, is_done)) return;
  recovered_ = true;
  survivor_.all_recovered();
}

void Recovery::finish() {
  if (std::exchange(finished_, true) || !is_root()) return;
  (void)group_->send_small({});
}

void Recovery::set_open() {
  if (over_ || std::exchange(open_, true)) return;
  group_->set_watching(false);
  group_->set_memory_awaited(std::nullopt);
  survivor_.succeeded();
}

Store* Recovery::incoming(std::uint64_t message, std::uint64_t bytes) {
  if (message >= kOpeningMessages) {
    set_open();
    return survivor_.incoming(message + offset_, bytes);
  }
  if (message == plan && bytes <= kMostPlanBytes) return &hold_plan(std::vector<std::byte>(bytes));
  group_->give_up_on(Rank{0}, {Errc::protocol_error, "a plan that cannot be"});
  return nullptr;
}

/// Called with a small message. A message of the application shows that the epoch is open. The verdict that
/// `settled` is stable shows the same.
bool Recovery::small(std::uint64_t message, std::span<const std::byte> bytes) {
  if (message >= kOpeningMessages) {
    set_open();
    return survivor_.small(message + offset_, bytes);
  }
  if (message != plan) return message == opening || finished_;
  group_->give_up_on(Rank{0}, {Errc::protocol_error, "a plan that cannot be"});
  return false;
}

void Recovery::delivered(std::uint64_t message) {
  if (message >= kOpeningMessages) return survivor_.delivered(message + offset_);
  if (message == plan && !is_root()) take_plan();
}

void Recovery::completed(std::uint64_t message) {
  if (message >= kOpeningMessages) survivor_.completed(message + offset_);
}

void Recovery::stable(std::uint64_t count) {
  if (count < kOpeningMessages) return;
  set_open();
  if (count > kOpeningMessages) survivor_.stable(count + offset_);
}

void Recovery::held_up(const std::optional<Holder>& holder) {
  if (!holder) return survivor_.held_up(holder);
  if (holder->message >= kOpeningMessages)
    survivor_.held_up(Holder{.member = holder->member, .message = holder->message + offset_});
}

void Recovery::part_released() {
  go_on();
  if (released_ || !is_released()) return;
  released_ = true;
  survivor_.released();
}

bool Recovery::is_released() const {
  return group_->is_released() &&
         std::ranges::all_of(rounds_, [](const auto& round) { return round->group->is_released(); });
}

void Recovery::end(const Error& cause) {
  if (std::exchange(over_, true)) return;
  group_->end(cause);
  for (const auto& round : rounds_) round->group->end({Errc::cancelled, cause.what});
}

void Recovery::failed(std::optional<Rank> member, const Error& error) {
  if (over_) return;
  end(error);
  // A member that ended the epoch on purpose is not to blame.
  survivor_.failed(error.code == Errc::cancelled ? std::nullopt : member, error);
}

}  // namespace rdmc::group

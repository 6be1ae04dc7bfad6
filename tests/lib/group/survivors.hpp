// Simulated processes with a group that continues after failures. They use the interface that Node uses for
// an application. The test decides which members are alive. After each reported failure, it gives all live
// members a new view.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "lib/group/node_group.hpp"
#include "tests/lib/group/world.hpp"

namespace rdmc::group {

/// A process that has one group and uses it as an application does.
class SimApplication final : public SimPeer {
 public:
  using SimPeer::SimPeer;
  void run(Time now) override {
    if (std::exchange(changed, false)) group->tidy();
    SimPeer::run(now);
    if (group && group->wants_to_run()) {
      group->run();
      changed = true;  // An engine gives one more turn after a command.
    }
    if (changed) wake();
  }

  // These members are declared before `group`, which refers to `changed` and `counts`.
  bool changed = false;
  NodeCounts counts;
  std::unique_ptr<NodeGroup> group;
};

/// How an application gives memory:
/// - when_asked: in incoming(), for each message.
/// - many_buffers: in many buffers that it posts in advance.
/// - one_buffer: in one posted buffer at a time.
enum class Gives : std::uint8_t { when_asked, many_buffers, one_buffer };

constexpr std::uint32_t kBlock = 4096;
constexpr std::uint64_t kMostBytes = 16 * kBlock;
// The time limit for the end of an epoch at all members.
constexpr Duration kBound = seconds(1);

/// One member: the upcalls that it has received, and its reactions to them.
struct Member {
  GroupCallbacks callbacks() {
    GroupCallbacks on;
    on.incoming = [this](std::uint64_t message, std::uint64_t bytes) -> std::optional<std::span<std::byte>> {
      if (gives != Gives::when_asked) return std::nullopt;
      auto& room = *memory.emplace_back(std::make_unique<std::vector<std::byte>>(bytes));
      return placed[message] = std::span(room);
    };
    on.delivered = [this](std::uint64_t message, std::span<std::byte> bytes) {
      in_order = in_order && message == delivered.size();
      delivered.push_back(bytes);
      copies.emplace_back(bytes.begin(), bytes.end());
      if (gives == Gives::one_buffer) post();
    };
    on.reusable = [this](std::uint64_t message) {
      in_order = in_order && message == reusable;
      // The delivered bytes must not have changed since their delivery.
      if (message < copies.size()) intact = intact && std::ranges::equal(copies[message], delivered[message]);
      ++reusable;
    };
    on.stable = [this](std::uint64_t count) {
      in_order = in_order && count > stable;
      stable = count;
    };
    on.held_up = [this](std::optional<NodeId> node, std::uint64_t message) {
      held_up_by = node ? std::optional(std::pair(*node, message)) : std::nullopt;
    };
    on.failed = [this](const GroupFailure& why) {
      has_failed = true;
      failures.push_back(why);
      on_failed(why);
    };
    on.continued = [this](std::uint64_t next) {
      has_failed = false;
      ++continued;
      on_continued(next);
    };
    return on;
  }
  void post() {
    auto& buffer = *memory.emplace_back(std::make_unique<std::vector<std::byte>>(kMostBytes));
    (void)process->group->post(buffer);
    process->wake();
  }

  /// Adds the messages below `next` that this member has not received. It has sent these messages itself, or
  /// was not a member yet.
  void know(const std::vector<std::vector<std::byte>>& sent, std::uint64_t next) {
    for (std::uint64_t message = copies.size(); message < next; ++message) {
      copies.push_back(sent[message]);
      delivered.emplace_back(copies.back());
    }
    if (std::exchange(was_in, true)) return;
    reusable = stable = next;
  }

  Gives gives = Gives::when_asked;
  SimApplication* process = nullptr;
  std::function<void(const GroupFailure&)> on_failed;
  std::function<void(std::uint64_t)> on_continued;
  std::vector<std::unique_ptr<std::vector<std::byte>>> memory;
  std::map<std::uint64_t, std::span<std::byte>> placed;  // The memory that was given in incoming().
  std::vector<std::span<std::byte>> delivered;
  std::vector<std::vector<std::byte>> copies;
  std::vector<GroupFailure> failures;
  std::optional<std::pair<NodeId, std::uint64_t>> held_up_by;
  std::uint64_t reusable = 0, stable = 0, epoch = 0;
  std::size_t root = 0;
  std::optional<std::uint64_t> leads_from;  // As a root, it sends the messages from this number on.
  // For a dead member, only its messages below this number are messages of the group.
  std::uint64_t kept = UINT64_MAX;
  int continued = 0;
  // `is_in` is true if the member is in the view now. `was_in` is true if it has been in an epoch.
  bool is_in = false, was_in = false;
  bool has_failed = false, is_alive = true, in_order = true, intact = true;
};

/// All members and their views. Node 0 is the first root. In each later view, the first member is the root. A
/// root sends a message as soon as it learns that the group continues.
class Survivors {
 public:
  Survivors(std::uint64_t seed, std::size_t count, bool all_ask,
            std::optional<relay::Algorithm> algorithm = relay::Algorithm::binomial_pipeline,
            const Place& place = alone, std::size_t joiners = 0)
      : world(seed, count + joiners,
              {.link = {.ring_bytes = 16 * 1024}, .keepalive = milliseconds(150), .early = {}}, place),
        members(count + joiners) {
    config = {.name = {.number = 1},
              .members = first_peers(count),
              .algorithm = algorithm.value_or(relay::Algorithm::binomial_pipeline),
              .block_bytes = kBlock,
              .connected_only = true,
              .confirms = true,
              .small_bytes = 1000,
              .memory_patience = GroupOptions{}.receive_timeout};
    if (!algorithm)
      config.automatic = relay::AutoConfig{.fixed = {.block_bytes = kBlock}, .racks_are_hosts = true};
    for (std::size_t i = 0; i < count; ++i) view.push_back(NodeId{static_cast<std::uint32_t>(i)});
    for (std::size_t i = 0; i < members.size(); ++i) {
      Member& member = members[i];
      SimApplication& process = *world.processes[i];
      member.process = &process;
      member.on_failed = [this, i](const GroupFailure& why) { on_failed(i, why); };
      member.on_continued = [this, i](std::uint64_t next) { on_continued(i, next); };
      if (i >= count) continue;
      if (!all_ask) member.gives = static_cast<Gives>(world.simulation.random().below(3));
      const RackOf hosts = *hosts_of(view, view[i], process.peers());
      config.racks = by_rank(view, view[0], view[i], hosts)->racks;
      process.group = std::make_unique<NodeGroup>(view, hosts, true, member.callbacks(), process.changed,
                                                  process.counts, true);
      config.rank = Rank{static_cast<std::uint32_t>(i)};
      member.is_in = member.was_in = true;
      BOOST_REQUIRE(process.group->open(process.peers(), config));
      const int buffers = member.gives == Gives::many_buffers ? (joiners > 0 ? 40 : 12)
                          : member.gives == Gives::one_buffer ? 1
                                                              : 0;
      for (int posted = 0; i != 0 && posted < buffers; ++posted) member.post();
    }
  }

  std::size_t root() const { return value_of(view.front()); }
  /// Makes the root of the view send a message of `bytes` random bytes.
  void send(std::uint64_t bytes) { send(root(), bytes); }
  void send(std::size_t from, std::uint64_t bytes) {
    auto& content = sent.emplace_back(bytes);
    for (std::byte& b : content) b = static_cast<std::byte>(world.simulation.random().next());
    const auto number = members[from].process->group->send(content);
    BOOST_TEST_REQUIRE((number && *number + 1 == sent.size()));
    members[from].process->wake();
  }
  void kill(std::size_t victim) {
    members[victim].is_alive = false;
    world.simulation.kill(members[victim].process->process());
  }
  /// Returns true if every live member is in the last epoch and has all messages that the root has sent. If
  /// the root has died and no member has noticed this, all live members must have the same number of
  /// messages.
  bool is_settled() const {
    const auto somebody = std::ranges::find(members, true, &Member::is_alive);
    const std::uint64_t count = members[root()].is_alive ? sent.size() : somebody->stable;
    return std::ranges::all_of(members, [&](const Member& m) {
      return !m.is_alive || !m.is_in || (!m.has_failed && m.epoch == epoch && m.stable == count);
    });
  }

  /// Checks the partial messages in `why`. All blocks that are not listed as missing must be in memory.
  void check_partial(const Member& member, const GroupFailure& why) {
    for (const PartialMessage& partial : why.partial) {
      BOOST_TEST((partial.message >= why.delivered && partial.bytes == sent[partial.message].size()));
      const auto placed = member.placed.find(partial.message);
      if (placed == member.placed.end()) continue;
      std::uint64_t block = 0;
      const auto is_there = [&](std::uint64_t end) {
        const auto begin = std::min(block * kBlock, partial.bytes);
        const auto bytes = std::min(end * kBlock, partial.bytes) - begin;
        return std::ranges::equal(placed->second.subspan(begin, bytes),
                                  std::span(sent[partial.message]).subspan(begin, bytes));
      };
      for (const auto& [first_missing, next] : partial.missing) {
        BOOST_TEST(is_there(first_missing));
        block = next;
      }
      BOOST_TEST(is_there(UINT64_MAX / kBlock));
      ++partial_messages;
    }
  }

  /// Begins an epoch without a failure, in which another member is the root.
  void lead_by(std::size_t next_root) {
    const NodeId leader{static_cast<std::uint32_t>(next_root)};
    view.erase(std::ranges::find(view, leader));
    view.insert(view.begin(), leader);
    change();
  }
  /// Begins an epoch without a failure, in which one more member takes part.
  void let_in(std::size_t joiner) {
    view.push_back(NodeId{static_cast<std::uint32_t>(joiner)});
    members[joiner].is_in = true;
    change();
  }
  /// Begins a group that all members join at the same time.
  void let_all_in() {
    for (std::size_t i = 0; i < members.size(); ++i) {
      view.push_back(NodeId{static_cast<std::uint32_t>(i)});
      members[i].is_in = true;
    }
    change();
  }
  void change() {
    ++epoch;
    for (std::size_t i = 0; i < members.size(); ++i)
      world.simulation.at(world.simulation.now() +
                              microseconds(static_cast<std::int64_t>(world.simulation.random().below(3000))),
                          [this, i] { follow(i, false); });
  }

  void on_failed(std::size_t reporter, const GroupFailure& why) {
    check_partial(members[reporter], why);
    if (why.error.code == Errc::cancelled && members[reporter].epoch != epoch)
      return;  // This member follows the view later.
    const auto blamed = why.node ? std::ranges::find(view, *why.node) : view.end();
    if (why.node) wrongly_blamed = wrongly_blamed || members[value_of(*why.node)].is_alive;
    if (blamed != view.end()) {
      view.erase(blamed);
      ++epoch;
    } else if (members[reporter].epoch == epoch) {
      ++epoch;  // The view is the same, but the epoch is new.
    }
    for (std::size_t i = 0; i < members.size(); ++i) {
      const Duration delay = microseconds(static_cast<std::int64_t>(world.simulation.random().below(3000)));
      world.simulation.at(world.simulation.now() + delay, [this, i] { follow(i, true); });
      world.simulation.at(world.simulation.now() + kBound, [this, i] { follow(i, false); });
    }
  }
  void on_continued(std::size_t i, std::uint64_t next) {
    for (Member& member : members)
      if (!member.is_alive) member.kept = std::min(member.kept, next);
    if (i != members[i].root || !members[i].was_in) members[i].know(sent, next);
    if (i != members[i].root) return;
    if (before_sending) before_sending(i);
    if (std::exchange(sender, i) != i) {
      members[i].leads_from = next;
      sent.resize(next);
    }
    send(i, world.simulation.random().below(2) == 0 ? 300 : kBlock + 1);
  }
  /// Makes member i continue in the last view. If `after_failure` is true, the member continues only if its
  /// group has failed. If its group does not fail within a second, the member had no messages in progress.
  /// Then it continues because the others do.
  void follow(std::size_t i, bool after_failure) {
    Member& member = members[i];
    const NodeId us{static_cast<std::uint32_t>(i)};
    if (!member.is_alive || (after_failure && !member.has_failed) || member.epoch == epoch) return;
    member.has_failed = true;
    if (std::ranges::find(view, us) == view.end()) return;
    if (member.process->group)
      BOOST_TEST_REQUIRE(member.process->group->continue_as(epoch, view, view.front(), us).has_value());
    else
      join(member, us);
    if (member.gives == Gives::many_buffers && i != root()) member.post();
    member.epoch = epoch;
    member.root = root();
    member.process->wake();
  }

  void join(Member& member, NodeId us) {
    SimApplication& process = *member.process;
    const RackOf hosts = *hosts_of(view, us, process.peers());
    const Ranking ranking = *by_rank(view, view.front(), us, hosts);
    GroupConfig joining = config;
    joining.name.epoch = epoch;
    joining.racks = ranking.racks;
    joining.rank =
        Rank{static_cast<std::uint32_t>(std::ranges::find(ranking.members, us) - ranking.members.begin())};
    joining.members.clear();
    for (const NodeId one : ranking.members) joining.members.push_back(PeerId{value_of(one)});
    process.group = std::make_unique<NodeGroup>(ranking.members, hosts, true, member.callbacks(),
                                                process.changed, process.counts, true);
    BOOST_TEST_REQUIRE(process.group->join(process.peers(), joining).has_value());
  }

  WorldOf<SimApplication> world;
  GroupConfig config;
  std::vector<Member> members;
  std::vector<std::vector<std::byte>> sent;  // The index is the message number.
  std::vector<NodeId> view;
  std::uint64_t epoch = 0;
  // The member that has been the root, and has sent the messages, since the last continuation.
  std::size_t sender = 0;
  // Called before a root sends its first message after a continuation.
  std::function<void(std::size_t root)> before_sending;
  bool wrongly_blamed = false;
  int partial_messages = 0;
};

}  // namespace rdmc::group

// The comparison of what the replicas of a rank send: with random programs of ranks whose replicas die and
// are replaced, and alone.
#include "lib/replica/send_comparison.hpp"

#include <boost/test/unit_test.hpp>
#include <vector>

#include "tests/lib/replica/replica_world.hpp"
#include "tests/sampled.hpp"

BOOST_AUTO_TEST_SUITE(send_comparison_test)

using namespace rdmc;
using namespace rdmc::replica;
using namespace rdmc::replica::testing;

namespace {

/// A process that ends its part of the program when it has done everything.
class EndingProcess : public Process {
 public:
  EndingProcess(FakeNetwork& network, std::uint32_t number, std::uint32_t rank,
                const std::vector<Message>& messages)
      : Process(network, number, rank, false, messages), network_(network), number_(number) {}

  bool step() {
    if (Process::step()) return true;
    if (has_ended_ || network_.is_dead(number_) || !is_at_end() || !is_complete()) return false;
    network_.messenger(number_).end_sends();
    return has_ended_ = true;
  }
  void copy(const EndingProcess& parent) {
    Process::copy(parent);
    has_ended_ = parent.has_ended_;
  }

 private:
  FakeNetwork& network_;
  std::uint32_t number_;
  bool has_ended_ = false;
};

/// A message that one replica sends with one wrong bit.
struct Flip {
  std::uint32_t process = 0;
  std::size_t message = 0;  ///< in the program
  ChannelKey channel;
  std::uint32_t sequence = 0;
};

struct World {
  World(const char* protocol, bool is_strict, bool is_flipped, std::uint64_t seed)
      : random(seed),
        layout(*Layout::uniform(static_cast<std::uint32_t>(2 + random() % 2),
                                static_cast<std::uint32_t>(2 + random() % 3))),
        network(layout, protocol, {.is_strict = is_strict, .verification = {.is_on = true}}, seed) {
    network.is_tight = random() % 4 != 0;
    std::vector<Message> messages;
    for (auto count = 10 + random() % 30; count > 0; --count) {
      messages.push_back({.from = static_cast<std::uint32_t>(network.draw(layout.ranks())),
                          .to = static_cast<std::uint32_t>(network.draw(layout.ranks())),
                          .tag = static_cast<std::int32_t>(network.draw(3)),
                          .bytes = any_bytes(network)});
    }
    programs.assign(layout.processes(), messages);
    if (is_flipped) plant();
    for (std::uint32_t i = 0; i < layout.processes(); ++i)
      processes.push_back(
          std::make_unique<EndingProcess>(network, i, value_of(layout.rank(ProcessId{i})), programs[i]));
  }

  void plant() {
    for (std::size_t i = random() % programs[0].size(), tries = 0; tries < programs[0].size(); ++tries) {
      i = (i + 1) % programs[0].size();
      const Message& message = programs[0][i];
      if (message.from == message.to || message.bytes.empty()) continue;
      const auto replica = static_cast<std::uint32_t>(random() % layout.degree(Rank{message.from}));
      flip = Flip{.process = value_of(layout.process({Rank{message.from}, replica})),
                  .message = i,
                  .channel = {.context = kWorld, .rank = Rank{message.to}, .tag = message.tag}};
      for (std::size_t before = 0; before < i; ++before) {
        const Message& other = programs[0][before];
        flip->sequence +=
            other.from == message.from && other.to == message.to && other.tag == message.tag ? 1U : 0U;
      }
      auto& bytes = programs[flip->process][i].bytes;
      bytes[random() % bytes.size()] ^= static_cast<std::byte>(1 << random() % 8);
      return;
    }
  }

  Struck play(std::size_t kills_in, bool recovers) {
    Struck struck;
    ReplicaWorld<EndingProcess>(
        network, layout, processes,
        {.kills_in = kills_in, .most_kills = recovers ? 20 : 1 << 20, .recovers = recovers}, struck)
        .play();
    return struck;
  }

  std::mt19937_64 random;
  Layout layout;
  FakeNetwork network;
  std::vector<std::vector<Message>> programs;  ///< of each process
  std::vector<std::unique_ptr<EndingProcess>> processes;
  std::optional<Flip> flip;
};

std::uint64_t seeds() {
  return all_or<std::uint64_t>(from_environment("RDMC_REPLICA_SEEDS", 400), 40);
}

/// Runs `check` with worlds of all protocols.
template <typename Check>
void for_each_world(bool is_flipped, Check check) {
  const auto first = from_environment("RDMC_FIRST_SEED", 1);
  for (const char* protocol : {"sdr", "mirror"})
    for (std::uint64_t seed = first; seed < first + seeds(); ++seed)
      BOOST_TEST_CONTEXT(protocol << ", seed " << seed) {
        World world(protocol, seed % 2 == 0, is_flipped, seed);
        check(world, seed);
      }
}

/// The replicas of one rank, alone.
struct Replicas {
  explicit Replicas(std::uint32_t degree) : layout(*Layout::uniform(2, degree)) {
    for (std::uint32_t i = 0; i < degree; ++i) all.emplace_back(layout, ReplicaId{Rank{0}, i});
  }
  /// Delivers the reports of one replica to another one. Returns their number.
  int deliver(std::uint32_t from, std::uint32_t to) {
    int reports = 0;
    while (const auto record = all[from].next_report(to)) {
      ++reports;
      if (const auto* const report = std::get_if<SendReport>(&*record))
        BOOST_REQUIRE(all[to].on_report(from, *report).has_value());
      else
        all[to].on_ended(from);
      all[from].note_reported(to);
    }
    return reports;
  }
  /// Delivers all reports.
  int deliver() {
    int reports = 0;
    for (std::uint32_t from = 0; from < all.size(); ++from)
      for (std::uint32_t to = 0; to < all.size(); ++to) reports += from != to ? deliver(from, to) : 0;
    return reports;
  }
  Layout layout;
  std::vector<SendComparison> all;
};

constexpr ChannelKey kChannel{.context = ContextId{0}, .rank = Rank{1}, .tag = 3};

}  // namespace

BOOST_AUTO_TEST_CASE(equal_replicas_never_differ_whoever_dies_and_is_replaced) {
  int kills = 0, recoveries = 0;
  for_each_world(false, [&](World& world, std::uint64_t seed) {
    const Struck struck = world.play(40 + seed % 7 * 200, seed % 3 != 0);
    kills += struck.kills;
    recoveries += struck.recoveries;
    for (std::uint32_t i = 0; i < world.layout.processes(); ++i) {
      if (world.network.is_dead(i)) continue;
      BOOST_REQUIRE(!world.network.messenger(i).has_differences());
      BOOST_REQUIRE(world.network.messenger(i).are_sends_compared());
      BOOST_REQUIRE_EQUAL(world.network.messenger(i).uncompared(), 0U);
    }
  });
  BOOST_TEST((kills > 0 && recoveries > 0));
}

BOOST_AUTO_TEST_CASE(each_replica_names_the_message_with_the_wrong_bit_and_the_minority) {
  for_each_world(true, [&](World& world, std::uint64_t) {
    if (!world.flip) return;
    world.play(std::size_t{1} << 60, false);
    const ReplicaId odd = world.layout.replica(ProcessId{world.flip->process});
    for (std::uint32_t i = 0; i < world.layout.processes(); ++i) {
      const auto found = world.network.messenger(i).take_differences();
      BOOST_REQUIRE(world.network.messenger(i).are_sends_compared());
      BOOST_REQUIRE_EQUAL(found.size(), world.layout.rank(ProcessId{i}) == odd.rank ? 1U : 0U);
      if (found.empty()) continue;
      BOOST_TEST((found[0].source == odd.rank && found[0].channel == world.flip->channel));
      BOOST_TEST(found[0].sequence == world.flip->sequence);
      BOOST_TEST(found[0].is_in_content());
      BOOST_TEST(found[0].versions.size() == world.layout.degree(odd.rank));
      BOOST_TEST(found[0].minority() == (found[0].versions.size() > 2 ? set_of(odd.replica) : 0));
    }
  });
}

BOOST_AUTO_TEST_CASE(nothing_but_the_wrong_message_is_named_whoever_dies_and_is_replaced) {
  int found_after_recovery = 0;
  for_each_world(true, [&](World& world, std::uint64_t seed) {
    if (!world.flip) return;
    const Struck struck = world.play(100 + seed % 5 * 300, seed % 4 != 0);
    const Rank source = world.layout.rank(ProcessId{world.flip->process});
    for (std::uint32_t i = 0; i < world.layout.processes(); ++i) {
      if (world.network.is_dead(i)) continue;
      const auto found = world.network.messenger(i).take_differences();
      BOOST_REQUIRE(world.network.messenger(i).are_sends_compared());
      for (const SendDifference& one : found) {
        BOOST_TEST((one.source == source && one.channel == world.flip->channel));
        BOOST_TEST(one.sequence == world.flip->sequence);
      }
      found_after_recovery += !found.empty() && struck.recoveries != 0 ? 1 : 0;
    }
  });
  BOOST_TEST(found_after_recovery > 0);
}

BOOST_AUTO_TEST_CASE(a_message_that_one_replica_has_not_sent_is_named_when_this_replica_has_ended) {
  Replicas replicas(3);
  for (std::uint32_t i = 0; i < 3; ++i)
    for (int count = 0; count < (i == 1 ? 5 : 4); ++count) replicas.all[i].note_sent(kChannel, {.bytes = 8});
  replicas.deliver();
  for (auto& one : replicas.all) {
    BOOST_TEST(!one.has_differences());
    one.end();
  }
  replicas.deliver();
  for (auto& one : replicas.all) {
    BOOST_TEST(one.is_over());
    const auto found = one.take_differences();
    BOOST_REQUIRE_EQUAL(found.size(), 1U);
    BOOST_TEST(found[0].sequence == 4U);
    BOOST_TEST(found[0].minority() == set_of(1));
    BOOST_TEST(
        describe(found[0]) ==
        "the replicas of rank 0 have not sent the same: message 4 to rank 1 with tag 3 in communicator "
        "0: replica 0.0 has not sent it, replica 0.1 has sent 8 bytes, replica 0.2 has not sent it; the "
        "minority is replica 0.1");
  }
}

BOOST_AUTO_TEST_CASE(a_new_replica_may_have_compared_more_than_another_one) {
  Replicas replicas(4);
  for (std::uint32_t i = 0; i < 3; ++i) {
    replicas.all[i].on_died(3);
    for (int count = 0; count < 2; ++count) replicas.all[i].note_sent(kChannel, {.bytes = 8});
  }
  // Replica 1 has all reports. Replica 0 lacks that of replica 2.
  for (std::uint32_t from = 0; from < 3; ++from)
    for (std::uint32_t to = 0; to < 3; ++to)
      if (from != to && (from != 2 || to != 0)) replicas.deliver(from, to);
  for (std::uint32_t i = 0; i < 3; ++i) replicas.all[i].on_replaced(3);
  replicas.all.pop_back();
  replicas.all.push_back(replicas.all[1]);
  replicas.all[3].become(3);
  BOOST_TEST((replicas.all[0].entries() != 0 && replicas.all[3].entries() == 0));
  replicas.deliver();
  for (std::uint32_t i = 0; i < 4; ++i)
    replicas.all[i].note_sent(kChannel, {.bytes = i == 3 ? std::uint64_t{9} : std::uint64_t{8}});
  for (auto& one : replicas.all) one.end();
  replicas.deliver();
  for (auto& one : replicas.all) {
    BOOST_TEST((one.is_over() && one.entries() == 0 && one.uncompared() == 0));
    const auto found = one.take_differences();
    BOOST_REQUIRE_EQUAL(found.size(), 1U);
    BOOST_TEST((found[0].sequence == 2U && found[0].minority() == set_of(3)));
  }
}

// The parent of a new process learns of the recovery later than others. Until then, it compares without the
// new process, also in channels that the others do not have yet when they learn of the recovery.
BOOST_AUTO_TEST_CASE(a_new_replica_may_have_compared_the_first_messages_of_a_channel) {
  Replicas replicas(3);
  for (std::uint32_t i = 0; i < 2; ++i) replicas.all[i].on_died(2);
  replicas.all[0].on_replaced(2);
  for (std::uint32_t i = 0; i < 2; ++i)
    for (int count = 0; count < 2; ++count) replicas.all[i].note_sent(kChannel, {.bytes = 8});
  replicas.deliver(0, 1);
  replicas.deliver(1, 0);
  BOOST_TEST((replicas.all[0].entries() != 0 && replicas.all[1].entries() == 0));
  replicas.all[1].on_replaced(2);
  replicas.all.pop_back();
  replicas.all.push_back(replicas.all[1]);
  replicas.all[2].become(2);
  replicas.deliver();
  BOOST_TEST(replicas.all[0].entries() == 0U);
  for (std::uint32_t i = 0; i < 3; ++i)
    replicas.all[i].note_sent(kChannel, {.bytes = i == 2 ? std::uint64_t{9} : std::uint64_t{8}});
  for (auto& one : replicas.all) one.end();
  replicas.deliver();
  for (auto& one : replicas.all) {
    BOOST_TEST((one.is_over() && one.entries() == 0 && one.uncompared() == 0));
    const auto found = one.take_differences();
    BOOST_REQUIRE_EQUAL(found.size(), 1U);
    BOOST_TEST((found[0].sequence == 2U && found[0].minority() == set_of(2)));
  }
}

BOOST_AUTO_TEST_CASE(replicas_that_wait_after_different_messages_are_named) {
  ChannelKey other = kChannel;
  other.tag = 4;
  Replicas replicas(2);
  for (auto& one : replicas.all) one.note_sent(kChannel, {.bytes = 8});
  replicas.all[0].note_sent(kChannel, {.bytes = 8});
  replicas.deliver();
  // One replica may only be slower than the other one.
  for (auto& one : replicas.all) one.judge_waiting();
  for (auto& one : replicas.all) BOOST_TEST(!one.has_differences());
  const auto before = replicas.all[0].changes();
  replicas.all[1].note_sent(other, {.bytes = 8});
  replicas.deliver();
  BOOST_TEST(replicas.all[0].changes() != before);
  for (auto& one : replicas.all) one.judge_waiting();
  const auto first = replicas.all[0].take_differences(), second = replicas.all[1].take_differences();
  BOOST_REQUIRE((first.size() == 1 && second.size() == 1));
  BOOST_TEST((first[0].channel == kChannel && first[0].sequence == 1));
  BOOST_TEST((first[0].versions[0].sent.has_value() && !first[0].versions[1].sent.has_value()));
  BOOST_TEST((second[0].channel == other && second[0].sequence == 0));
  BOOST_TEST((!second[0].versions[0].sent.has_value() && second[0].versions[1].sent.has_value()));
}

// What each of the two has sent is in a channel in which the other one has reported nothing.
BOOST_AUTO_TEST_CASE(replicas_that_have_replaced_dead_ones_and_wait_after_different_messages_are_named) {
  Replicas replicas(2);
  for (const std::uint32_t parent : {0U, 1U}) {
    const std::uint32_t dead = 1 - parent;
    replicas.all[parent].on_died(dead);
    replicas.all[parent].on_replaced(dead);
    const SendComparison copy = replicas.all[parent];
    std::vector<SendComparison> all;
    for (std::uint32_t i = 0; i < 2; ++i) all.push_back(i == parent ? replicas.all[parent] : copy);
    all[dead].become(dead);
    replicas.all.swap(all);
    replicas.deliver();
  }
  for (std::uint32_t i = 0; i < 2; ++i)
    replicas.all[i].note_sent({.context = ContextId{0}, .rank = Rank{1}, .tag = static_cast<int>(i)},
                              {.bytes = 8});
  replicas.deliver();
  for (auto& one : replicas.all) one.judge_waiting();
  for (auto& one : replicas.all) BOOST_TEST(one.take_differences().size() == 1U);
}

BOOST_AUTO_TEST_CASE(equal_messages_that_follow_each_other_are_one_entry) {
  Replicas replicas(2);
  for (auto& one : replicas.all)
    for (int i = 0; i < 100'000; ++i) one.note_sent(kChannel, {.bytes = 8});
  BOOST_TEST(replicas.all[0].entries() == 1U);
  BOOST_TEST(replicas.deliver() == 2);
  BOOST_TEST(replicas.all[0].entries() == 0U);
}

BOOST_AUTO_TEST_CASE(memory_is_bounded_if_one_replica_is_far_ahead) {
  Replicas replicas(2);
  constexpr std::uint32_t kMany = 5 * SendComparison::kMostEntries;
  for (std::uint32_t i = 0; i < kMany; ++i) {
    replicas.all[0].note_sent(kChannel, {.bytes = 8, .digest = i});
    if (i % 1000 == 0) replicas.deliver();
  }
  for (auto& one : replicas.all) BOOST_TEST(one.entries() <= 2 * SendComparison::kMostEntries + 2);
  for (std::uint32_t i = 0; i < kMany; ++i)
    replicas.all[1].note_sent(kChannel, {.bytes = 8, .digest = i == 1000 || i == kMany - 1 ? 99'999'999 : i});
  for (auto& one : replicas.all) one.end();
  replicas.deliver();
  for (auto& one : replicas.all) {
    BOOST_TEST((one.is_over() && one.entries() == 0));
    BOOST_TEST(one.uncompared() > 0U);
    const auto found = one.take_differences();
    BOOST_REQUIRE_EQUAL(found.size(), 1U);  // The other difference is in messages that are not compared.
    BOOST_TEST(found[0].sequence == 1000U);
  }
}

BOOST_AUTO_TEST_CASE(channels_of_a_communicator_that_has_ended_are_forgotten) {
  Replicas replicas(2);
  for (std::uint32_t context = 0; context < 100; ++context) {
    for (auto& one : replicas.all) {
      one.note_sent({.context = ContextId{context}, .rank = Rank{1}, .tag = 3}, {.bytes = 8});
      one.close(ContextId{context});
    }
    replicas.deliver();
  }
  for (const auto& one : replicas.all) BOOST_TEST(one.channels() == 0U);
}

BOOST_AUTO_TEST_CASE(reports_that_no_replica_sends_are_refused) {
  Replicas replicas(2);
  std::vector<std::byte> bytes(kSentMessagesBytes);
  put_sent(bytes.data(), {.count = 1, .bytes = 8});
  const auto is_refused = [](const Result<void>& result) {
    return !result && result.error().code == Errc::protocol_error;
  };
  BOOST_TEST(is_refused(replicas.all[0].on_report(1, {.channel = kChannel, .first = 1, .sent = bytes})));
  put_sent(bytes.data(), {.count = 0, .bytes = 8});
  BOOST_TEST(is_refused(replicas.all[0].on_report(1, {.channel = kChannel, .first = 0, .sent = bytes})));
  for (std::uint32_t i = 0; i < SendComparison::kMostEarlyChannels - 1; ++i) {
    const ChannelKey channel{.context = ContextId{0}, .rank = Rank{1}, .tag = static_cast<int>(100 + i)};
    BOOST_REQUIRE(replicas.all[0].on_report(1, {.channel = channel, .first = 0, .sent = {}}).has_value());
  }
  const ChannelKey more{.context = ContextId{0}, .rank = Rank{1}, .tag = 50};
  BOOST_TEST(is_refused(replicas.all[0].on_report(1, {.channel = more, .first = 0, .sent = {}})));
}

BOOST_AUTO_TEST_SUITE_END()

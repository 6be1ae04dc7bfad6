#include "lib/replica/messenger.hpp"

#include <rapidcheck.h>
#include <boost/test/unit_test.hpp>
#include <map>
#include <vector>

#include "tests/lib/replica/fake_network.hpp"
#include "tests/sampled.hpp"

BOOST_AUTO_TEST_SUITE(messenger_test)

using namespace rdmc;
using namespace rdmc::replica;
using rdmc::replica::testing::FakeNetwork;

namespace {

constexpr ContextId kWorld{1};
constexpr std::size_t kLong = Messenger::kMostEagerBytes + 1;

std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::byte> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i) made[i] = static_cast<std::byte>((seed * 131 + i * 7) >> 3);
  return made;
}

std::size_t any_length(FakeNetwork& network) {
  switch (network.draw(5)) {
    case 0: return 0;
    case 1: return network.draw(64);
    case 2: return Messenger::kMostEagerBytes + network.draw(3) - 1;
    case 3: return network.draw(3 * kLong);
    default: return network.draw(Messenger::kMostEagerBytes);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_message_arrives_once_intact_and_in_the_order_of_its_channel) {
  struct Sent {
    std::uint32_t to;
    std::int32_t tag;
    std::vector<std::byte> bytes;
    RequestId request{};
  };
  struct Received {
    std::int32_t from, tag;
    std::vector<std::byte> bytes;
    RequestId request{};
  };
  const auto seeds = all_or<std::uint64_t>(400, 40);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    FakeNetwork network(1 + static_cast<std::uint32_t>(seed % 4), seed);
    const auto processes = static_cast<std::uint32_t>(1 + seed % 4);
    std::vector<std::deque<Sent>> sent(processes);
    std::vector<std::deque<Received>> received(processes);
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<const Sent*>> between;
    // Every message has a receive that names its source and its tag, or one that names neither. The receives
    // of one process are all of the same kind, so that each message finds one.
    for (int i = 0; i < 40; ++i) {
      const auto from = static_cast<std::uint32_t>(network.draw(processes));
      const auto to = static_cast<std::uint32_t>(network.draw(processes));
      const auto tag = static_cast<std::int32_t>(network.draw(3));
      sent[from].push_back({to, tag, pattern(any_length(network), seed * 100 + i)});
      const bool names_nobody = to % 2 == 1;
      received[to].push_back({names_nobody ? Messenger::kAny : static_cast<std::int32_t>(from),
                              names_nobody ? Messenger::kAny : tag, std::vector<std::byte>(4 * kLong)});
    }
    std::vector<std::size_t> next_send(processes), next_receive(processes);
    for (bool is_busy = true; is_busy;) {
      is_busy = false;
      for (std::uint32_t p = 0; p < processes; ++p) {
        if (next_send[p] < sent[p].size() && network.draw(3) == 0) {
          auto& one = sent[p][next_send[p]++];
          one.request = network.messenger(p).send(kWorld, one.bytes, one.to, one.tag);
          between[{p, one.to}].push_back(&one);
        }
        if (next_receive[p] < received[p].size() && network.draw(3) == 0) {
          auto& one = received[p][next_receive[p]++];
          one.request = network.messenger(p).receive(kWorld, one.bytes, one.from, one.tag);
        }
        is_busy = is_busy || next_send[p] < sent[p].size() || next_receive[p] < received[p].size();
      }
      network.step();
    }
    network.run();
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::map<std::int32_t, std::size_t>> seen;
    for (std::uint32_t p = 0; p < processes; ++p) {
      for (auto& one : sent[p]) {
        BOOST_REQUIRE(network.messenger(p).is_complete(one.request));
        const auto done = network.messenger(p).take(one.request);
        BOOST_REQUIRE((done == Delivery{.source = p, .tag = one.tag, .bytes = one.bytes.size()}));
      }
      for (auto& one : received[p]) {
        BOOST_REQUIRE(network.messenger(p).is_complete(one.request));
        const auto done = network.messenger(p).take(one.request);
        BOOST_REQUIRE(done.has_value());
        // The k-th message of a channel matches the k-th receive that can match this channel.
        std::size_t k = seen[{done->source, p}][done->tag]++;
        const auto& channel = between[{done->source, p}];
        const auto message = std::ranges::find_if(
            channel, [&](const Sent* one_sent) { return one_sent->tag == done->tag && k-- == 0; });
        BOOST_REQUIRE((message != channel.end()));
        BOOST_REQUIRE(done->bytes == (*message)->bytes.size());
        BOOST_REQUIRE(std::ranges::equal(std::span(one.bytes).first(done->bytes), (*message)->bytes));
      }
    }
    BOOST_REQUIRE(network.exposed() == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_message_that_is_longer_than_its_receive_is_cut_and_reported) {
  for (const std::size_t bytes : {std::size_t{100}, kLong, 3 * Messenger::kPieceBytes}) {
    for (const std::size_t room : {std::size_t{0}, std::size_t{99}}) {
      for (const std::uint32_t to : {0U, 1U}) {
        FakeNetwork network(2, bytes + room);
        const auto sent = pattern(bytes, 5);
        std::vector<std::byte> into(room + 1, std::byte{0xAA});
        const auto receive = network.messenger(to).receive(kWorld, std::span(into).first(room), 0, 7);
        const auto send = network.messenger(0).send(kWorld, sent, to, 7);
        network.run();
        BOOST_TEST(network.messenger(0).take(send).has_value());
        const auto done = network.messenger(to).take(receive);
        BOOST_REQUIRE(!done.has_value());
        BOOST_TEST((done.error().code == Errc::invalid_argument));
        BOOST_TEST(std::ranges::equal(std::span(into).first(room), std::span(sent).first(room)));
        BOOST_TEST((into[room] == std::byte{0xAA}));
        BOOST_TEST(network.exposed() == 0U);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_long_message_is_written_in_pieces_straight_into_the_receive) {
  FakeNetwork network(2, 1);
  const auto sent = pattern(2 * Messenger::kPieceBytes + 5, 9);
  std::vector<std::byte> into(sent.size());
  const auto send = network.messenger(0).send(kWorld, sent, 1, 0);
  network.run();
  BOOST_TEST(!network.messenger(0).is_complete(send));  // Nobody has granted memory yet.
  BOOST_TEST((network.messenger(1).probe(kWorld, 0, Messenger::kAny) ==
              Delivery{.source = 0, .tag = 0, .bytes = sent.size()}));
  const auto receive = network.messenger(1).receive(kWorld, into, Messenger::kAny, Messenger::kAny);
  network.run();
  BOOST_TEST(network.messenger(0).is_complete(send));
  BOOST_TEST(network.messenger(1).take(receive)->bytes == sent.size());
  BOOST_TEST((into == sent));
  BOOST_TEST(network.writes() == 3U);
}

BOOST_AUTO_TEST_CASE(a_sender_that_nobody_receives_from_fills_only_its_window) {
  FakeNetwork network(2, 1);
  const auto bytes = pattern(1000, 1);
  std::vector<RequestId> sends;
  for (int i = 0; i < 5000; ++i) sends.push_back(network.messenger(0).send(kWorld, bytes, 1, 0));
  network.run();
  const auto complete =
      std::ranges::count_if(sends, [&](RequestId send) { return network.messenger(0).is_complete(send); });
  BOOST_TEST(complete == static_cast<long>(Messenger::kEagerWindow / (1000 + Messenger::kEagerOverhead)));
  std::vector<std::byte> into(1000);
  for (int i = 0; i < 5000; ++i) {
    const auto receive = network.messenger(1).receive(kWorld, into, 0, 0);
    network.run();
    BOOST_REQUIRE(network.messenger(1).take(receive).has_value());
  }
  for (const auto send : sends) BOOST_REQUIRE(network.messenger(0).take(send).has_value());
}

BOOST_AUTO_TEST_CASE(messages_wait_for_a_communicator_that_is_not_made_yet_and_are_dropped_after_its_end) {
  FakeNetwork network(2, 3);
  constexpr ContextId kNew{2};
  const std::vector<Rank> members{Rank{1}, Rank{0}};  // The ranks are exchanged.
  network.messenger(0).add_context(kNew, members, 1);
  const auto small = pattern(10, 1), large = pattern(kLong, 2);
  const auto first = network.messenger(0).send(kNew, small, 0, 4);
  const auto second = network.messenger(0).send(kNew, large, 0, 5);
  network.run();
  network.messenger(1).add_context(kNew, members, 0);
  std::vector<std::byte> into(10);
  const auto receive = network.messenger(1).receive(kNew, into, 1, 4);
  BOOST_TEST(network.messenger(1).take(receive)->bytes == 10U);
  BOOST_TEST((into == small));
  BOOST_TEST(network.messenger(0).take(first).has_value());

  network.messenger(1).remove_context(kNew);
  const auto third = network.messenger(0).send(kNew, large, 0, 5);
  network.run();
  BOOST_TEST(network.messenger(0).take(second).has_value());
  BOOST_TEST(network.messenger(0).take(third).has_value());
}

BOOST_AUTO_TEST_CASE(receives_of_a_communicator_that_ends_are_cancelled_unless_they_have_matched) {
  FakeNetwork network(2, 3);
  constexpr ContextId kNew{2};
  for (const std::uint32_t process : {0U, 1U})
    network.messenger(process).add_context(kNew, {Rank{0}, Rank{1}}, process);
  const auto large = pattern(kLong, 2);
  std::vector<std::byte> matched(kLong), unmatched(10), also(10);
  auto& own = network.messenger(1);
  const auto first = own.receive(kNew, matched, 0, 4);
  const auto second = own.receive(kNew, unmatched, Messenger::kAny, 5);
  const auto third = own.receive(kNew, also, 0, 6);
  network.messenger(0).send(kNew, large, 1, 4);
  while (network.exposed() == 0) BOOST_REQUIRE(network.step());
  own.remove_context(kNew);
  BOOST_TEST((own.take(second).error().code == Errc::cancelled));
  BOOST_TEST((own.take(third).error().code == Errc::cancelled));
  network.run();
  BOOST_TEST(own.take(first)->bytes == kLong);
  BOOST_TEST((matched == large));
}

BOOST_AUTO_TEST_CASE(a_receiver_has_a_limited_number_of_announcements) {
  FakeNetwork network(2, 7);
  const auto large = pattern(kLong, 1);
  std::vector<RequestId> sends;
  const std::uint32_t count = Messenger::kMostAnnounced + 50;
  for (std::uint32_t i = 0; i < count; ++i) sends.push_back(network.messenger(0).send(kWorld, large, 1, 0));
  network.run();
  BOOST_TEST(network.messenger(1).counters().unexpected == Messenger::kMostAnnounced);
  std::vector<std::byte> into(kLong);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto receive = network.messenger(1).receive(kWorld, into, 0, 0);
    network.run();
    BOOST_REQUIRE(network.messenger(1).take(receive).has_value());
  }
  for (const auto send : sends) BOOST_REQUIRE(network.messenger(0).take(send).has_value());
}

BOOST_AUTO_TEST_CASE(a_receive_from_anybody_fails_when_all_others_are_dead) {
  FakeNetwork network(3, 1);
  std::vector<std::byte> into(10);
  auto& own = network.messenger(0);
  const auto receive = own.receive(kWorld, into, Messenger::kAny, 0);
  network.kill(1);
  BOOST_TEST(!own.is_complete(receive));
  BOOST_TEST((own.failure_of(kWorld, 1).has_value() && !own.failure_of(kWorld, Messenger::kAny)));
  network.kill(2);
  BOOST_TEST((own.take(receive).error().code == Errc::peer_failed));
}

BOOST_AUTO_TEST_CASE(what_depends_on_a_dead_process_fails_and_nothing_else_does) {
  for (std::uint64_t seed = 0; seed < all_or(200U, 20U); ++seed) {
    FakeNetwork network(3, seed);
    const auto large = pattern(kLong * 4, seed), small = pattern(64, seed);
    std::vector<std::byte> from_dead(large.size()), from_live(large.size()), from_any(small.size());
    auto& own = network.messenger(0);
    const auto to_dead = own.send(kWorld, large, 1, 0);
    const auto dead_receive = own.receive(kWorld, from_dead, 1, 0);
    const auto live_receive = own.receive(kWorld, from_live, 2, 0);
    const auto any_receive = own.receive(kWorld, from_any, Messenger::kAny, 1);
    network.messenger(1).send(kWorld, large, 0, 0);
    network.messenger(2).send(kWorld, large, 0, 0);
    for (auto steps = network.draw(10); steps > 0; --steps) network.step();
    const bool had_arrived = own.is_complete(dead_receive);
    network.kill(1);
    BOOST_REQUIRE(own.is_complete(to_dead));
    BOOST_REQUIRE(own.is_complete(dead_receive));
    const auto dead = own.take(dead_receive);
    BOOST_REQUIRE(dead.has_value() == had_arrived);
    if (!dead) BOOST_REQUIRE((dead.error().code == Errc::peer_failed));
    BOOST_REQUIRE(!own.is_complete(any_receive));
    const auto later = own.send(kWorld, small, 1, 0), late_receive = own.receive(kWorld, from_dead, 1, 9);
    BOOST_REQUIRE((own.take(later).error().code == Errc::peer_failed));
    BOOST_REQUIRE((own.take(late_receive).error().code == Errc::peer_failed));
    network.messenger(2).send(kWorld, small, 0, 1);
    network.run();
    BOOST_REQUIRE(own.take(live_receive).has_value());
    BOOST_REQUIRE((own.take(any_receive) == Delivery{.source = 2, .tag = 1, .bytes = small.size()}));
    BOOST_REQUIRE(network.exposed() == 0);
  }
}

BOOST_AUTO_TEST_CASE(what_a_peer_must_not_send_is_refused_by_name) {
  FakeNetwork network(2, 1);
  auto& own = network.messenger(0);
  const auto refuses = [&](const Record& record) {
    std::vector<std::byte> frame(encoded_bytes(record));
    encode(record, frame);
    const auto handled = own.on_records(ProcessId{1}, frame);
    return !handled && handled.error().code == Errc::protocol_error;
  };
  BOOST_TEST(refuses(Eager{{.context = kWorld, .source = 0}, {}}));  // the rank of another process
  BOOST_TEST(refuses(Eager{{.context = kWorld, .source = 99}, {}}));
  BOOST_TEST(refuses(Announcement{.envelope = {.context = ContextId{9}, .source = 99}}));
  BOOST_TEST(refuses(Grant{.transfer = 0, .bytes = 1}));
  BOOST_TEST(refuses(Consumed{1}));
  BOOST_TEST(!own.on_write_arrived(ProcessId{1}, 0, 1).has_value());
  const auto large = pattern(kLong, 1);
  network.is_tight = false;
  const auto send = own.send(kWorld, large, 1, 0);
  BOOST_TEST(refuses(Grant{.transfer = 0, .bytes = kLong + 1}));
  BOOST_TEST(!refuses(Grant{.transfer = 0, .bytes = 5}));
  BOOST_TEST(refuses(Grant{.transfer = 0, .bytes = 5}));  // It was granted before.
  BOOST_TEST(!own.is_complete(send));
}

BOOST_AUTO_TEST_SUITE_END()

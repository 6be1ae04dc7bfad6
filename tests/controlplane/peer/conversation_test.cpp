// Tests the two ends of a connection against each other, and each end against peers that send arbitrary
// messages.
#include "controlplane/peer/conversation.hpp"

#include <rapidcheck.h>
#include <boost/test/unit_test.hpp>
#include <set>

BOOST_AUTO_TEST_SUITE(conversation_test)

using namespace rdmc;
using namespace rdmc::peer;

namespace {

Hello hello_of(std::uint8_t number) {
  return {.identity = {.incarnation = {std::byte{number}}, .process = {.host = number, .pid = number}},
          .nonce = {std::byte{1}, std::byte{number}},
          .secret = {std::byte{2}},
          .proofs = {}};
}

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

bool failed_as(Conversation& side, const Message& said, std::string_view what) {
  const auto heard = side.on_message(encode(said));
  return !heard && heard.error().code == Errc::protocol_error && heard.error().what == what;
}

struct World {
  World() {
    dialer.introduce(hello_of(1));
    settle();
    listener.introduce(hello_of(2));
    settle();
  }
  /// Carries up to `most` messages in each direction, and puts the events of both sides into the lists.
  void settle(std::size_t most = SIZE_MAX) {
    const auto carry = [&](Conversation& from, Conversation& to, std::vector<Event>& events) {
      std::size_t carried = 0;
      for (; carried < most; ++carried) {
        const auto bytes = from.poll_transmit();
        if (!bytes) break;
        const auto taken = to.on_message(*bytes);
        BOOST_REQUIRE_MESSAGE(taken, (taken ? "" : taken.error().what));
        while (auto event = to.poll_event()) events.push_back(std::move(*event));
      }
      return carried;
    };
    while (carry(dialer, listener, at_listener) + carry(listener, dialer, at_dialer) != 0 &&
           most == SIZE_MAX) {
    }
  }
  Conversation dialer{true}, listener{false};
  std::vector<Event> at_dialer, at_listener;
};

}  // namespace

BOOST_AUTO_TEST_CASE(both_sides_learn_who_the_other_is) {
  World world;
  BOOST_REQUIRE((world.at_dialer.size() == 1 && world.at_listener.size() == 1));
  BOOST_TEST((std::get<Introduced>(world.at_listener[0]).hello == hello_of(1)));
  BOOST_TEST((std::get<Introduced>(world.at_dialer[0]).hello == hello_of(2)));
  BOOST_TEST((world.dialer.is_open() && world.listener.is_open()));
}

BOOST_AUTO_TEST_CASE(a_channel_is_opened_used_both_ways_and_closed_in_order) {
  World world;
  const auto id = world.dialer.open("echo", {bytes_of("hi"), bytes_of("blob")}).value();
  world.settle();
  const auto& requested = std::get<Requested>(world.at_listener.at(1));
  BOOST_TEST((requested.channel == id && requested.service == "echo"));
  BOOST_TEST((requested.offer == Offer{bytes_of("hi"), bytes_of("blob")}));
  BOOST_TEST(!world.dialer.send(id, bytes_of("too early")).has_value());
  world.listener.accept(id, {bytes_of("ho"), {}});
  BOOST_REQUIRE(world.listener.send(id, bytes_of("first")));
  world.settle();
  BOOST_TEST((std::get<Accepted>(world.at_dialer.at(1)).offer.greeting == bytes_of("ho")));
  BOOST_TEST((std::get<Received>(world.at_dialer.at(2)).body == bytes_of("first")));
  BOOST_REQUIRE(world.dialer.send(id, bytes_of("last")));
  world.dialer.close(id);
  BOOST_TEST(!world.dialer.send(id, {}).has_value());
  world.settle();
  BOOST_TEST((std::get<Received>(world.at_listener.at(2)).body == bytes_of("last")));
  BOOST_TEST((std::get<Closed>(world.at_listener.at(3)).channel == id));
  BOOST_TEST((std::get<Closed>(world.at_dialer.at(3)).channel == id));
  BOOST_TEST((world.dialer.channels() == 0 && world.listener.channels() == 0));
}

BOOST_AUTO_TEST_CASE(who_has_dialed_may_ask_which_connection_counts_and_gets_one_answer_each_time) {
  World world;
  const Known known{{Proof{std::byte{1}}, Proof{std::byte{2}}}};
  for (const Choice& choice : {Choice{Proof{std::byte{3}}}, Choice{}}) {
    world.dialer.ask(known);
    world.settle();
    BOOST_TEST((std::get<Known>(world.at_listener.back()) == known));
    world.listener.answer(choice);
    world.settle();
    BOOST_TEST((std::get<Choice>(world.at_dialer.back()) == choice));
  }
  BOOST_TEST(failed_as(world.dialer, Choice{}, "sent a Choice that nobody waits for"));
  BOOST_TEST(failed_as(world.listener, Choice{}, "sent a Choice that nobody waits for"));
  BOOST_TEST(failed_as(world.dialer, known, "sent a Known that is not its to say"));
  Conversation not_introduced(false);
  BOOST_TEST(failed_as(not_introduced, known, "sent a Known that is not its to say"));
}

BOOST_AUTO_TEST_CASE(who_is_refused_hears_why) {
  World world;
  const auto id = world.listener.open("nothing", {}).value();
  world.settle();
  world.dialer.reset(id, {Errc::not_found, "no such service"});
  world.settle();
  const auto& reset = std::get<WasReset>(world.at_listener.at(1));
  BOOST_TEST((reset.channel == id && reset.cause.code == Errc::not_found));
  BOOST_TEST(reset.cause.what == "no such service");
}

BOOST_AUTO_TEST_CASE(one_connection_bounds_its_channels) {
  World world;
  for (std::size_t i = 0; i < Conversation::kMostChannels; ++i) BOOST_REQUIRE(world.dialer.open("x", {}));
  BOOST_TEST((world.dialer.open("x", {}).error().code == Errc::resource_limit));
  BOOST_REQUIRE(world.listener.open("y", {}));  // The dialer already has the largest number of channels.
  world.settle();
  BOOST_TEST((std::get<WasReset>(world.at_listener.back()).cause.code == Errc::resource_limit));
  BOOST_TEST(world.dialer.channels_refused() == 1U);
  // The listener had already opened "y". So the last channel of the dialer exceeded the listener's limit.
  BOOST_TEST(world.listener.channels_refused() == 1U);
}

BOOST_AUTO_TEST_CASE(who_asks_on_and_on_without_reading_the_answers_is_refused) {
  World world;
  Result<void> heard;
  std::size_t asked = 0;
  // Every channel beyond the limit gets an answer. This answer waits until the peer reads.
  for (; heard && asked < 2 * Conversation::kMostWaiting; ++asked)
    heard = world.listener.on_message(
        encode(Open{ChannelId{static_cast<std::uint32_t>(2 * asked + 1)}, "x", {}}));
  BOOST_TEST(asked > Conversation::kMostWaiting);
  BOOST_TEST((heard.error().code == Errc::protocol_error));
  BOOST_TEST(heard.error().what == "sent on without reading the answers");
  BOOST_TEST(world.listener.channels() == Conversation::kMostChannels);
}

// The two sides perform random actions, and their messages cross. Neither side must conclude that the other
// side breaks the protocol. The data of a channel must arrive completely and in order, up to the channel's
// end. A side must get one end event for each channel that it has not ended itself.
BOOST_AUTO_TEST_CASE(two_honest_sides_never_offend_each_other_and_lose_nothing_in_between) {
  BOOST_TEST(rc::check([] {
    World world;
    struct Side {
      Conversation& self;
      std::vector<Event>& events;
      std::size_t seen = 1;
      std::set<ChannelId> requested, open, ended;
      std::map<ChannelId, std::uint8_t> sent, received;
    };
    Side sides[] = {{world.dialer, world.at_dialer}, {world.listener, world.at_listener}};
    const auto pick = [](const std::set<ChannelId>& from) {
      return *std::next(from.begin(), *rc::gen::inRange<std::ptrdiff_t>(0, std::ssize(from)));
    };
    const auto end = [](Side& side, ChannelId id) {
      RC_ASSERT(side.ended.insert(id).second);
      side.open.erase(id);
      side.requested.erase(id);
    };
    for (int steps = *rc::gen::inRange(0, 200); steps > 0; --steps) {
      Side& side = sides[*rc::gen::inRange(0, 2)];
      switch (*rc::gen::inRange(0, 8)) {
        case 0: RC_ASSERT(side.self.open("s", {}).has_value()); break;
        case 1:
          if (side.requested.empty()) break;
          side.open.insert(pick(side.requested));
          side.self.accept(pick(side.requested), {});
          for (const ChannelId id : side.requested)
            if (!side.open.contains(id)) side.open.insert(id), side.self.accept(id, {});
          side.requested.clear();
          break;
        case 2:
        case 3:
          if (!side.open.empty()) {
            const ChannelId id = pick(side.open);
            if (side.self.send(id, {std::byte{side.sent[id]}})) ++side.sent[id];
          }
          break;
        case 4:
          if (!side.open.empty()) {
            const ChannelId id = pick(side.open);
            side.self.close(id);
            side.open.erase(id);
          }
          break;
        case 5:
          if (!side.open.empty()) {
            const ChannelId id = pick(side.open);
            side.self.reset(id, {Errc::peer_failed, "gone"});
            end(side, id);
          }
          break;
        default: world.settle(static_cast<std::size_t>(*rc::gen::inRange(1, 4))); break;
      }
      for (Side& each : sides) {
        for (; each.seen < each.events.size(); ++each.seen) {
          const Event& event = each.events[each.seen];
          if (const auto* const requested = std::get_if<Requested>(&event)) {
            each.requested.insert(requested->channel);
          } else if (const auto* const accepted = std::get_if<Accepted>(&event)) {
            each.open.insert(accepted->channel);
          } else if (const auto* const received = std::get_if<Received>(&event)) {
            RC_ASSERT(!each.ended.contains(received->channel));
            RC_ASSERT(received->body.at(0) == std::byte{each.received[received->channel]++});
          } else if (const auto* const closed = std::get_if<Closed>(&event)) {
            end(each, closed->channel);
          } else if (const auto* const reset = std::get_if<WasReset>(&event)) {
            end(each, reset->channel);
          }
        }
      }
    }
  }));
}

BOOST_AUTO_TEST_CASE(whatever_a_peer_says_is_taken_or_refused_by_name) {
  BOOST_TEST(rc::check([](const std::vector<std::uint8_t>& noise) {
    Conversation side(false);
    RC_ASSERT(side.on_message(encode(hello_of(1))).has_value());
    side.introduce(hello_of(2));
    for (int messages = *rc::gen::inRange(1, 20); messages > 0; --messages) {
      const auto channel = ChannelId{*rc::gen::inRange<std::uint32_t>(0, 6)};
      const Message all[] = {hello_of(1),         Open{channel, "s", {}},
                             Accept{channel, {}}, Data{channel, {}},
                             Close{channel},      Reset{channel, Errc::cancelled, "x"},
                             Known{{Proof{}}},    Choice{}};
      auto bytes = encode(all[*rc::gen::inRange(0, 8)]);
      if (*rc::gen::inRange(0, 4) == 0)
        bytes.assign(std::as_bytes(std::span(noise)).begin(), std::as_bytes(std::span(noise)).end());
      if (const auto heard = side.on_message(bytes); !heard) {
        RC_ASSERT(heard.error().code == Errc::protocol_error || heard.error().code == Errc::version_mismatch);
        RC_ASSERT(heard.error().what.starts_with("sent ") || heard.error().what.starts_with("speaks "));
        break;
      }
      RC_ASSERT(side.channels() <= 6U);
      while (const auto event = side.poll_event())
        if (const auto* const requested = std::get_if<Requested>(&*event))
          if (*rc::gen::arbitrary<bool>()) side.accept(requested->channel, {});
    }
  }));
}

BOOST_AUTO_TEST_CASE(messages_come_back_from_their_encoding_as_they_were) {
  Hello full = hello_of(3);
  full.proofs = {{std::byte{1}}, {std::byte{2}}};
  const Message all[] = {full,
                         Open{ChannelId{7}, "service", {bytes_of("g"), bytes_of("b")}},
                         Accept{ChannelId{8}, {bytes_of("g"), {}}},
                         Data{ChannelId{9}, Bytes(100'000, std::byte{5})},
                         Close{ChannelId{0xFFFFFFFF}},
                         Reset{ChannelId{2}, Errc::invalid_argument, "why"},
                         Known{full.proofs},
                         Choice{},
                         Choice{full.proofs[1]}};
  for (const Message& message : all) BOOST_TEST((decode(encode(message)).value() == message));
}

BOOST_AUTO_TEST_CASE(another_version_is_named) {
  auto bytes = encode(hello_of(1));
  // The version is the first field of a Hello.
  BOOST_REQUIRE((bytes.at(3) == std::byte{kVersion} || bytes.at(4) == std::byte{kVersion}));
  (bytes.at(3) == std::byte{kVersion} ? bytes[3] : bytes[4]) = std::byte{99};
  BOOST_TEST((decode(bytes).error().code == Errc::version_mismatch));
}

BOOST_AUTO_TEST_SUITE_END()

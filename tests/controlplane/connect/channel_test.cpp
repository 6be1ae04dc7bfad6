#include "controlplane/connect/channel.hpp"

#include <signal.h>
#include <sys/wait.h>

#include <new>

#include "controlplane/connect/framing.hpp"
#include "dataplane/base/random.hpp"
#include "tests/controlplane/connect/harness.hpp"

namespace rdmc::control::testing {
BOOST_AUTO_TEST_SUITE(channel_test)
namespace {

/// Returns messages of random sizes, 10 MB in total. The first and the last message are empty. About 2 % of
/// the messages have up to 1 MB.
std::vector<Bytes> many_messages(std::uint64_t seed) {
  Random random(seed);
  std::vector<Bytes> messages;
  messages.push_back({});
  std::size_t total = 0;
  while (total < 10'000'000) {
    Bytes message(random.chance(20'000) ? random.below(1'000'000) : random.below(20'000));
    for (auto& b : message) b = static_cast<std::byte>(random.next());
    total += message.size();
    messages.push_back(std::move(message));
  }
  messages.push_back({});
  return messages;
}

void check_both_ways(Harness& harness, const ChannelOptions& options) {
  auto [client, server] = harness.pair(options, options);
  const auto there = many_messages(1);
  const auto back = many_messages(2);
  for (const auto& message : there) BOOST_TEST_REQUIRE(harness.send(client, message).has_value());
  for (const auto& message : back) BOOST_TEST_REQUIRE(harness.send(server, message).has_value());
  BOOST_TEST_REQUIRE(harness.events.wait(
      [&] { return server.messages.size() == there.size() && client.messages.size() == back.size(); }));
  BOOST_TEST((server.messages == there));
  BOOST_TEST((client.messages == back));
  BOOST_TEST(client.closings.empty());
}

/// Returns the bytes that a peer without encryption sends: the preamble and these messages.
Bytes spoken(std::uint16_t version, const std::vector<Bytes>& messages) {
  const auto preamble = encode_preamble(version);
  Bytes words(preamble.begin(), preamble.end());
  for (const auto& message : messages) {
    const auto length = encode_length(static_cast<std::uint32_t>(message.size()));
    words.insert(words.end(), length.begin(), length.end());
    words.insert(words.end(), message.begin(), message.end());
  }
  return words;
}

void check_error(const Result<void>& result, Errc code) {
  BOOST_TEST_REQUIRE(!result.has_value());
  BOOST_TEST((result.error().code == code), result.error().what);
}

void check_closed(const End& end, Errc code, std::string_view part = "") {
  BOOST_TEST_REQUIRE(end.closings.size() == 1u);
  BOOST_TEST((end.closings.front().code == code), end.closings.front().what);
  BOOST_TEST(end.closings.front().what.find(part) != std::string::npos, end.closings.front().what);
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(ten_megabytes_in_random_sizes_arrive_intact_both_ways_with_the_same_key, Harness) {
  check_both_ways(*this, options_for(ClusterKey::generate().value()));
}

BOOST_FIXTURE_TEST_CASE(ten_megabytes_arrive_intact_both_ways_when_both_are_insecure, Harness) {
  check_both_ways(*this, insecure_options());
}

BOOST_FIXTURE_TEST_CASE(a_handler_without_memory_ends_its_channel_and_no_other, Harness) {
  auto [client, server] = pair(insecure_options(), insecure_options());
  End& other = connect_to_listener(insecure_options());
  BOOST_TEST_REQUIRE(events.wait([&] { return other.established && accepted.size() == 2; }));
  End& other_end = accepted.back();
  server.on_first_message = [] { throw std::bad_alloc(); };
  BOOST_TEST_REQUIRE(send(client, bytes_of("much")).has_value());
  BOOST_TEST_REQUIRE(events.wait([&] { return !server.closings.empty() && !client.closings.empty(); }));
  check_closed(server, Errc::resource_limit);
  check_closed(client, Errc::peer_failed);
  BOOST_TEST_REQUIRE(send(other, bytes_of("well")).has_value());
  BOOST_TEST_REQUIRE(events.wait([&] { return !other_end.messages.empty(); }));
  BOOST_TEST((other_end.messages.front() == bytes_of("well")));
}

BOOST_FIXTURE_TEST_CASE(a_peer_that_floods_lets_others_have_their_turns, Harness) {
  auto [client, server] = pair(insecure_options(), insecure_options());
  constexpr std::size_t kFlood = 20'000;
  std::size_t when_others_had_their_turn = 0;
  loop->call([&, &from = client, &at = server] {
    for (std::size_t i = 0; i < kFlood; ++i) BOOST_TEST_REQUIRE(from.channel->send(Bytes{}).has_value());
    at.on_first_message = [&] {
      loop->post([&] { events.change([&] { when_others_had_their_turn = at.messages.size(); }); });
    };
  });
  BOOST_TEST_REQUIRE(events.wait([&, &at = server] { return at.messages.size() == kFlood; }));
  BOOST_TEST(when_others_had_their_turn > 0u);
  BOOST_TEST(when_others_had_their_turn <= 100u);
}

BOOST_FIXTURE_TEST_CASE(closing_delivers_everything_that_was_queued_and_both_sides_learn_it_once, Harness) {
  for (const auto& options : {options_for(ClusterKey::generate().value()), insecure_options()}) {
    accepted.clear();
    auto [client, server] = pair(options, options);
    const auto messages = many_messages(3);
    loop->call([&] {
      for (const auto& message : messages) BOOST_TEST(client.channel->send(message).has_value());
      client.channel->close();
      check_error(client.channel->send({}), Errc::cancelled);
    });
    BOOST_TEST_REQUIRE(events.wait([&] { return !client.closings.empty() && !server.closings.empty(); }));
    BOOST_TEST((server.messages == messages));
    check_closed(server, Errc::cancelled, "the other side closed");
    check_closed(client, Errc::cancelled, "closed by this side");
  }
}

BOOST_FIXTURE_TEST_CASE(a_channel_destroyed_after_close_still_delivers_what_was_queued, Harness) {
  const auto options = options_for(ClusterKey::generate().value());
  auto [client, server] = pair(options, options);
  const auto messages = many_messages(4);
  loop->call([&] {
    for (const auto& message : messages) BOOST_TEST(client.channel->send(message).has_value());
    client.channel->close();
    client.channel.reset();
  });
  BOOST_TEST_REQUIRE(events.wait([&] { return !server.closings.empty(); }));
  BOOST_TEST((server.messages == messages));
  check_closed(server, Errc::cancelled);
  BOOST_TEST(client.closings.empty());
}

BOOST_FIXTURE_TEST_CASE(a_channel_destroyed_without_close_looks_like_a_death_to_the_peer, Harness) {
  const auto options = options_for(ClusterKey::generate().value());
  auto [client, server] = pair(options, options);
  client.channel.reset();  // Runs on another thread than the loop's thread.
  BOOST_TEST_REQUIRE(events.wait([&] { return !server.closings.empty(); }));
  check_closed(server, Errc::peer_failed, "without a goodbye");
  BOOST_TEST(client.closings.empty());
}

BOOST_FIXTURE_TEST_CASE(both_sides_may_close_at_once, Harness) {
  const auto options = options_for(ClusterKey::generate().value());
  auto [client, server] = pair(options, options);
  loop->call([&] {
    client.channel->close();
    server.channel->close();
  });
  BOOST_TEST_REQUIRE(events.wait([&] { return !client.closings.empty() && !server.closings.empty(); }));
  check_closed(client, Errc::cancelled);
  check_closed(server, Errc::cancelled);
}

BOOST_FIXTURE_TEST_CASE(a_process_killed_in_the_middle_of_a_message_closes_the_channel_once, Harness) {
  listen(insecure_options());
  Bytes words = spoken(kProtocolVersion, {bytes_of("whole")});
  const auto half = encode_length(1000);
  words.insert(words.end(), half.begin(), half.end());
  words.resize(words.size() + 500);
  const pid_t child = ::fork();
  if (child == 0) {
    UnauthenticatedClient peer(listener->address());
    peer.say(words);
    for (;;) ::pause();
  }
  const bool arrived = events.wait([&] { return accepted.size() == 1 && !accepted.back().messages.empty(); });
  BOOST_TEST(::kill(child, SIGKILL) == 0);
  BOOST_TEST(::waitpid(child, nullptr, 0) == child);
  BOOST_TEST_REQUIRE(arrived);
  End& server = accepted.back();
  BOOST_TEST_REQUIRE(events.wait([&] { return !server.closings.empty(); }));
  check_closed(server, Errc::peer_failed, "in the middle of a message");
  BOOST_TEST((server.messages == std::vector<Bytes>{bytes_of("whole")}));
}

BOOST_FIXTURE_TEST_CASE(a_reset_is_a_failed_peer, Harness) {
  listen(insecure_options());
  UnauthenticatedClient peer(listener->address());
  peer.say(spoken(kProtocolVersion, {bytes_of("whole")}));
  BOOST_TEST_REQUIRE(events.wait([&] { return accepted.size() == 1 && !accepted.back().messages.empty(); }));
  peer.reset();
  BOOST_TEST_REQUIRE(events.wait([&] { return !accepted.back().closings.empty(); }));
  check_closed(accepted.back(), Errc::peer_failed, "reset");
}

BOOST_FIXTURE_TEST_CASE(a_message_beyond_the_limit_is_refused_by_the_sender_and_by_the_receiver, Harness) {
  auto small = options_for(ClusterKey::generate().value());
  auto large = small;
  small.max_message_bytes = 1000;
  auto [client, server] = pair(small, large);
  check_error(send(server, Bytes(1001)), Errc::invalid_argument);
  BOOST_TEST(send(client, Bytes(1000)).has_value());
  BOOST_TEST(send(client, Bytes(1001)).has_value());
  BOOST_TEST_REQUIRE(events.wait([&] { return !server.closings.empty() && !client.closings.empty(); }));
  check_closed(server, Errc::protocol_error, "1001");
  BOOST_TEST(server.messages.size() == 1u);
  check_closed(client, Errc::peer_failed);
}

BOOST_FIXTURE_TEST_CASE(a_full_queue_says_so_and_tells_when_there_is_room_again, Harness) {
  auto options = insecure_options();
  options.max_queued_bytes = 1 << 20;
  listen(options);
  UnauthenticatedClient peer(listener->address());
  peer.say(spoken(kProtocolVersion, {}));
  BOOST_TEST(peer.hear(kPreambleBytes).size() == kPreambleBytes);
  BOOST_TEST_REQUIRE(events.wait([&] { return accepted.size() == 1 && accepted.back().established; }));
  End& server = accepted.back();
  bool drained = false;
  loop->call([&] { server.channel->on_drained([&] { events.change([&] { drained = true; }); }); });
  // The peer does not read. The kernel accepts some megabytes. After that, the channel's queue fills.
  std::size_t sent = 0;
  Result<void> result;
  while ((result = send(server, Bytes(100'000)))) sent += kLengthBytes + 100'000;
  check_error(result, Errc::would_block);
  BOOST_TEST(loop->call([&] { return server.channel->queued_bytes(); }) <= options.max_queued_bytes);
  BOOST_TEST(!loop->call([&] { return drained; }));
  BOOST_TEST(peer.hear(sent).size() == sent);
  BOOST_TEST(events.wait([&] { return drained; }));
  BOOST_TEST(send(server, Bytes(100'000)).has_value());
}

BOOST_FIXTURE_TEST_CASE(a_peer_that_does_not_read_is_given_up_after_the_limits, Harness) {
  for (const bool closing : {false, true}) {
    accepted.clear();
    auto options = insecure_options();
    options.silence_limit = closing ? seconds(20) : milliseconds(300);
    options.close_deadline = milliseconds(300);
    listen(options);
    UnauthenticatedClient peer(listener->address());
    peer.say(spoken(kProtocolVersion, {}));
    BOOST_TEST_REQUIRE(events.wait([&] { return accepted.size() == 1 && accepted.back().established; }));
    End& server = accepted.back();
    loop->call([&] {
      BOOST_TEST(server.channel->send(Bytes(16 << 20)).has_value());
      if (closing) server.channel->close();
    });
    BOOST_TEST_REQUIRE(events.wait([&] { return !server.closings.empty(); }));
    check_closed(server, Errc::timed_out);
  }
}

BOOST_FIXTURE_TEST_CASE(handlers_may_destroy_their_channel, Harness) {
  const auto options = options_for(ClusterKey::generate().value());
  std::optional<Channel> held;
  int messages = 0;
  bool closed = false;
  ListenHandlers handlers;
  handlers.on_channel = [&](Channel made) {
    held.emplace(std::move(made));
    held->start(
        [&, keep = std::make_shared<int>(1)](Bytes) {
          held.reset();
          events.change([&] { messages += *keep; });
        },
        [&](const Error&) { closed = true; });
  };
  listener.emplace(
      Listener::listen(*loop, Address::ipv4(127, 0, 0, 1, 0), {.channel = options}, std::move(handlers))
          .value());
  std::optional<Channel> client;
  bool client_closed = false;
  int sent = 0;
  const auto attempt =
      connect(*loop, "127.0.0.1", listener->address().port, options, seconds(5), [&](auto made) {
        client.emplace(std::move(made.value()));
        client->start([](Bytes) {},
                      [&](const Error&) {
                        client.reset();
                        events.change([&] { client_closed = true; });
                      });
        for (int i = 0; i < 3; ++i) sent += client->send(bytes_of("x")).has_value();
      });
  BOOST_TEST(events.wait([&] { return client_closed; }));
  BOOST_TEST(sent == 3);
  BOOST_TEST(messages == 1);  // The handler destroys the channel after the first message.
  BOOST_TEST(!closed);
  loop.reset();
}

BOOST_FIXTURE_TEST_CASE(stopping_the_loop_ends_everything_that_is_under_way_once, Harness) {
  const auto options = options_for(ClusterKey::generate().value());
  auto [client, server] = pair(options, options);
  StrangeServer silent;
  auto& waiting = connect_to(silent.address(), options);
  UnauthenticatedClient unauthenticated(listener->address());
  UnauthenticatedClient at_silent = silent.accept();
  BOOST_TEST(at_silent.hear(5).size() == 5u);  // The handshake of `waiting` has started.
  BOOST_TEST(send(client, Bytes(10 << 20)).has_value());
  loop.reset();
  check_closed(client, Errc::cancelled, "loop stopped");
  check_closed(server, Errc::cancelled, "loop stopped");
  BOOST_TEST_REQUIRE(waiting.refusals.size() == 1u);
  BOOST_TEST((waiting.refusals.front().code == Errc::cancelled));
}

BOOST_FIXTURE_TEST_CASE(what_arrives_before_start_waits_for_it, Harness) {
  const auto options = options_for(ClusterKey::generate().value());
  std::optional<Channel> held;
  ListenHandlers handlers;
  handlers.on_channel = [&](Channel made) { events.change([&] { held.emplace(std::move(made)); }); };
  listener.emplace(
      Listener::listen(*loop, Address::ipv4(127, 0, 0, 1, 0), {.channel = options}, std::move(handlers))
          .value());
  auto& client = connect_to_listener(options);
  BOOST_TEST_REQUIRE(events.wait([&] { return client.established && held; }));
  BOOST_TEST(send(client, bytes_of("early")).has_value());
  close(client);
  End late(events);
  loop->call([&] { late.take(std::move(*held)); });
  BOOST_TEST_REQUIRE(events.wait([&] { return !late.closings.empty(); }));
  BOOST_TEST((late.messages == std::vector<Bytes>{bytes_of("early")}));
  check_closed(late, Errc::cancelled);
  loop.reset();
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::control::testing

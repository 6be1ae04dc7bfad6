#define BOOST_TEST_MODULE channel
#include "controlplane/connect/channel.hpp"

#include "dataplane/base/random.hpp"
#include "tests/controlplane/connect/harness.hpp"

namespace rdmc::control::testing {
namespace {

/// Messages of random sizes, 10 MB in all, with a few empty ones and one of the largest size.
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

}  // namespace

BOOST_FIXTURE_TEST_CASE(ten_megabytes_in_random_sizes_arrive_intact_both_ways_with_the_same_key, Harness) {
  check_both_ways(*this, options_for(ClusterKey::generate().value()));
}

BOOST_FIXTURE_TEST_CASE(ten_megabytes_arrive_intact_both_ways_when_both_are_insecure, Harness) {
  check_both_ways(*this, insecure_options());
}

}  // namespace rdmc::control::testing

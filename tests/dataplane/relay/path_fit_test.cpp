// Tests how the parameters of a group's paths are learned from the times of its messages. A parameter about
// which these times give no information keeps its initial value.
#include "dataplane/relay/path_fit.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "dataplane/base/random.hpp"
#include "dataplane/relay/auto_plan.hpp"

namespace rdmc::relay {
BOOST_AUTO_TEST_SUITE(path_fit_test)
namespace {

bool is_near(double a, double b, double tolerance) {
  return std::abs(a - b) <= tolerance * std::max(std::abs(a), std::abs(b));
}

BOOST_AUTO_TEST_CASE(parameters_come_out_of_messages_of_different_shapes) {
  BOOST_TEST(rc::check([] {
    const PathParameters truth{
        .bits_per_second = static_cast<double>(*rc::gen::inRange<std::int64_t>(100'000'000, 200'000'000'000)),
        .start_seconds = *rc::gen::inRange(1, 1000) * 1e-6,
        .block_seconds = *rc::gen::inRange(1, 500) * 1e-6,
        .hop_seconds = *rc::gen::inRange(1, 1000) * 1e-6};
    PathFit fit(PathParameters{});
    for (const std::uint64_t bytes : {100'000ULL, 4'000'000ULL, 64'000'000ULL}) {
      for (const std::uint32_t block_bytes : {16U << 10, 256U << 10}) {
        for (const std::uint32_t members : {2U, 3U, 9U}) {
          const MessageShape message{.members = members, .bytes = bytes};
          fit.observe(critical_path(Algorithm::binomial_pipeline, message, block_bytes, truth),
                      cost_seconds(Algorithm::binomial_pipeline, message, block_bytes, truth));
        }
      }
    }
    const PathParameters found = fit.parameters();
    for (const std::uint64_t bytes : {1'000'000ULL, 1'000'000'000ULL}) {
      const MessageShape message{.members = 5, .bytes = bytes};
      for (const Algorithm algorithm : kAlgorithms)
        RC_ASSERT(is_near(cost_seconds(algorithm, message, 64 << 10, found),
                          cost_seconds(algorithm, message, 64 << 10, truth), 0.02));
    }
  }));
}

BOOST_AUTO_TEST_CASE(nothing_seen_leaves_the_guess) {
  const PathParameters guess{
      .bits_per_second = 3e9, .uplink_bits_per_second = 7e8, .block_seconds = 1e-5, .hop_seconds = 2e-4};
  const PathParameters found = PathFit(guess).parameters();
  BOOST_TEST(is_near(found.bits_per_second, guess.bits_per_second, 1e-6));
  BOOST_TEST(is_near(found.block_seconds, guess.block_seconds, 1e-6));
  BOOST_TEST(is_near(found.hop_seconds, guess.hop_seconds, 1e-6));
  BOOST_TEST(is_near(found.start_seconds, guess.start_seconds, 1e-6));
  BOOST_TEST(found.uplink_bits_per_second == guess.uplink_bits_per_second);
}

BOOST_AUTO_TEST_CASE(no_parameter_is_negative_whatever_was_seen) {
  BOOST_TEST(rc::check([] {
    PathFit fit(PathParameters{});
    const auto count = *rc::gen::inRange(1, 12);
    for (int i = 0; i < count; ++i) {
      const MessageShape message{.members = *rc::gen::inRange<std::uint32_t>(2, 40),
                                 .bytes = *rc::gen::inRange<std::uint64_t>(0, 100'000'000)};
      fit.observe(critical_path(*rc::gen::elementOf(kAlgorithms), message, 65'536, {}),
                  *rc::gen::inRange(1, 1'000'000) * 1e-6);
    }
    const PathParameters found = fit.parameters();
    RC_ASSERT(found.bits_per_second > 0 && std::isfinite(found.bits_per_second));
    RC_ASSERT(found.block_seconds >= 0 && std::isfinite(found.block_seconds));
    RC_ASSERT(found.hop_seconds >= 0 && std::isfinite(found.hop_seconds));
  }));
}

/// A network, and the messages that a group's root sends in it.
struct Case {
  explicit Case(std::uint64_t seed) : chance(seed) {
    change();
    message.members = static_cast<std::uint32_t>(chance.between(2, 40));
    message.bytes = chance.between(5000, 64 << 20);
  }
  void change() {
    truth = {.bits_per_second = static_cast<double>(chance.between(100'000'000, 200'000'000'000)),
             .start_seconds = static_cast<double>(chance.between(1, 300)) * 1e-6,
             .block_seconds = static_cast<double>(chance.between(1, 100)) * 1e-6,
             .hop_seconds = static_cast<double>(chance.between(1, 1000)) * 1e-6};
  }
  double seconds_by(const MessagePlan& plan) const {
    return cost_seconds(plan.algorithm, message, plan.block_bytes, truth);
  }
  /// Sends `count` messages and returns the time that the last one takes.
  double last_of(int count, bool in_a_queue) {
    AutoPlan plan(AutoConfig{}, message.members, {});
    return last_of(count, in_a_queue, plan);
  }
  double last_of(int count, bool in_a_queue, AutoPlan& plan) {
    trials = 0;
    for (int i = 0; i < count; ++i) {
      const AutoPlan::Next next = plan.next(message.bytes);
      plan.sent(message.bytes);
      last = seconds_by(next.plan);
      trials += next.is_trial ? 1 : 0;
      if (next.is_trial || !in_a_queue)
        plan.took(message.bytes, next.plan,
                  last * (1 + 0.02 * static_cast<double>(chance.below(1000)) / 1000));
    }
    return last;
  }

  Random chance;
  PathParameters truth;
  MessageShape message;
  int trials = 0;
  double last = 0;
};

/// In a few networks, the search may end at a local optimum. In all others, learning costs time only at the
/// beginning. In a queue of messages, only the messages that are held back as trials are timed.
BOOST_AUTO_TEST_CASE(what_is_automatic_soon_travels_by_what_is_cheapest_alone_or_in_a_queue) {
  constexpr int kNetworks = 1000, kQueue = 50;
  int dearer = 0, much_dearer = 0, dearer_in_a_queue = 0, held_back = 0, most_held_back = 0;
  for (std::uint64_t seed = 1; seed <= kNetworks; ++seed) {
    Case network(seed);
    const double best = choose(network.message, network.truth, {}).seconds;
    const double alone = network.last_of(40, false);
    dearer += alone > 1.05 * best ? 1 : 0;
    much_dearer += alone > 1.25 * best ? 1 : 0;
    dearer_in_a_queue += network.last_of(kQueue, true) > 1.25 * alone ? 1 : 0;
    held_back += network.trials;
    most_held_back = std::max(most_held_back, network.trials);
  }
  BOOST_TEST(dearer <= kNetworks / 50);
  BOOST_TEST(much_dearer <= kNetworks / 200);
  BOOST_TEST(dearer_in_a_queue <= kNetworks / 200);
  BOOST_TEST(held_back <= 10 * kNetworks);
  BOOST_TEST(most_held_back < kQueue / 2);
}

BOOST_AUTO_TEST_CASE(a_network_that_becomes_another_is_learned_anew_alone_or_in_a_queue) {
  constexpr int kNetworks = 300, kMessages = 2000;
  int dearer[2] = {}, held_back = 0;
  for (std::uint64_t seed = 1; seed <= kNetworks; ++seed) {
    for (const bool in_a_queue : {false, true}) {
      Case network(seed);
      AutoPlan plan(AutoConfig{}, network.message.members, {});
      network.last_of(50, in_a_queue, plan);
      network.change();
      const double last = network.last_of(kMessages, in_a_queue, plan);
      dearer[in_a_queue] += last > 1.25 * choose(network.message, network.truth, {}).seconds ? 1 : 0;
      held_back += in_a_queue ? network.trials : 0;
    }
  }
  BOOST_TEST(dearer[0] <= kNetworks / 100);
  BOOST_TEST(dearer[1] <= kNetworks / 15);
  BOOST_TEST(held_back <= kNetworks * kMessages / 50);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::relay

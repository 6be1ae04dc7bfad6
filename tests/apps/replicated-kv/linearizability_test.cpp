#include "apps/replicated-kv/history/linearizability.hpp"

#include <rapidcheck.h>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <map>
#include <random>

BOOST_AUTO_TEST_SUITE(linearizability_test)

using namespace rdmc;
using namespace rdmc::kv;
using Kind = Step::Kind;

namespace {

/// Executes an operation in the way that a reader would, and returns the replies.
std::vector<std::string> replies(const Operation& operation, std::map<std::string, std::string>& values) {
  std::vector<std::string> all;
  for (const Step& step : operation.steps) {
    std::string& value = values[step.key];
    if (step.kind == Kind::set) value = step.value;
    if (step.kind == Kind::append) value += step.value;
    if (step.kind == Kind::incr) value = std::to_string((value.empty() ? 0 : std::stoll(value)) + 1);
    all.push_back(step.kind == Kind::set      ? "OK"
                  : step.kind == Kind::append ? std::to_string(value.size())
                                              : value);
  }
  return all;
}

/// Tries all orders of all subsets that have the certain operations. For few operations.
bool is_linearizable_by_trying(const std::vector<Operation>& history) {
  std::vector<std::size_t> order(history.size());
  const std::size_t count = history.size();
  for (std::size_t chosen = 0; chosen < (std::size_t{1} << count); ++chosen) {
    order.clear();
    bool has_all = true;
    for (std::size_t i = 0; i < count; ++i) {
      if ((chosen >> i & 1) != 0)
        order.push_back(i);
      else if (history[i].is_certain)
        has_all = false;
    }
    if (!has_all) continue;
    do {
      bool fits = true;
      std::map<std::string, std::string> values;
      for (std::size_t i = 0; fits && i < order.size(); ++i) {
        for (std::size_t j = i + 1; j < order.size(); ++j) {
          const Operation& later = history[order[j]];
          if (later.is_certain && later.returned < history[order[i]].called) fits = false;
        }
        const auto got = replies(history[order[i]], values);
        for (std::size_t k = 0; k < got.size(); ++k) {
          const auto& expected = history[order[i]].steps[k].reply;
          if (expected && *expected != got[k]) fits = false;
        }
      }
      if (fits) return true;
    } while (std::ranges::next_permutation(order).found);
  }
  return false;
}

Operation any_operation(std::mt19937_64& random, std::size_t keys) {
  Operation one;
  const auto steps = 1 + random() % 5 / 4;
  for (std::size_t i = 0; i < steps; ++i) {
    const auto kind = static_cast<Kind>(random() % 4);
    const bool is_number = kind == Kind::incr || (kind == Kind::get && random() % 2 == 0);
    one.steps.push_back({.kind = kind,
                         .key = (is_number ? "n" : "k") + std::to_string(random() % keys),
                         .value = {},
                         .reply = {}});
    if (kind == Kind::set || kind == Kind::append) one.steps.back().value = std::to_string(random() % 3);
  }
  return one;
}

/// A history that a correct service has produced: each operation takes effect at a moment between its ends.
std::vector<Operation> correct_history(std::mt19937_64& random, std::size_t count, std::size_t keys,
                                       std::size_t clients, std::uint64_t uncertain_one_in) {
  std::vector<std::pair<std::int64_t, Operation>> by_moment;
  std::vector<std::int64_t> free_at(clients, 0);
  for (std::size_t i = 0; i < count; ++i) {
    Operation one = any_operation(random, keys);
    std::int64_t& free = free_at[random() % clients];
    one.called = free + static_cast<std::int64_t>(random() % 5);
    const std::int64_t moment = one.called + static_cast<std::int64_t>(random() % 8);
    one.returned = moment + static_cast<std::int64_t>(random() % 8);
    free = one.returned + 1;
    one.is_certain = random() % uncertain_one_in != 0;
    by_moment.emplace_back(moment, std::move(one));
  }
  std::ranges::stable_sort(by_moment, {}, [](const auto& one) { return one.first; });
  std::map<std::string, std::string> values;
  std::vector<Operation> history;
  for (auto& [moment, one] : by_moment) {
    // An uncertain operation has taken effect, or not.
    if (one.is_certain || random() % 2 == 0) {
      const auto got = replies(one, values);
      for (std::size_t k = 0; one.is_certain && k < got.size(); ++k) one.steps[k].reply = got[k];
    }
    history.push_back(std::move(one));
  }
  std::ranges::shuffle(history, random);
  return history;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_short_history_gets_the_verdict_of_trying_all_orders) {
  std::size_t linearizable = 0, others = 0;
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    std::mt19937_64 random(seed);
    auto history = correct_history(random, 2 + seed % 5, 1 + seed % 2, 3, 6);
    // Half of the histories have a reply that may be wrong.
    if (seed % 2 == 0) {
      Operation& changed = history[random() % history.size()];
      Step& step = changed.steps[random() % changed.steps.size()];
      if (step.reply && step.kind != Kind::set) step.reply = std::to_string(random() % 4);
    }
    const bool expected = is_linearizable_by_trying(history);
    BOOST_REQUIRE_MESSAGE(check_linearizable(history).has_value() == expected, "seed " << seed);
    ++(expected ? linearizable : others);
  }
  BOOST_TEST(linearizable > 300u);
  BOOST_TEST(others > 100u);
}

BOOST_AUTO_TEST_CASE(a_long_history_of_a_correct_service_is_linearizable) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    const auto checked = check_linearizable(correct_history(random, 3000, 8, 5, 400), 5'000'000);
    BOOST_REQUIRE_MESSAGE(checked.has_value(), "seed " << seed << ": " << checked.error().what);
  }
}

BOOST_AUTO_TEST_CASE(a_stale_read_a_lost_write_and_a_double_write_are_found_and_described) {
  const auto operation = [](std::int64_t from, std::int64_t to, Kind kind, std::string value,
                            std::string reply) {
    return Operation{
        .called = from, .returned = to, .steps = {{kind, "k", std::move(value), std::move(reply)}}};
  };
  const std::vector<std::vector<Operation>> wrong{
      {operation(0, 1, Kind::set, "a", "OK"), operation(2, 3, Kind::set, "b", "OK"),
       operation(4, 5, Kind::get, "", "a")},
      {operation(0, 1, Kind::set, "a", "OK"), operation(2, 3, Kind::get, "", "")},
      {operation(0, 1, Kind::incr, "", "1"), operation(2, 3, Kind::get, "", "2")},
  };
  for (const auto& history : wrong) {
    const auto checked = check_linearizable(history);
    BOOST_REQUIRE(!checked);
    BOOST_TEST((checked.error().code == Errc::corrupt));
    BOOST_TEST(checked.error().what.contains("has no place: "), checked.error().what);
  }
}

BOOST_AUTO_TEST_SUITE_END()

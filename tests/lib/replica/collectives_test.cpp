// Tests the collective operations that copy bytes against their definitions.
#include "lib/replica/collectives.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>

#include "tests/lib/replica/collective_cases.hpp"

namespace rdmc::replica::collectives {
BOOST_AUTO_TEST_SUITE(collectives_test)
namespace {

/// Runs an operation at all ranks. `operation` returns the bytes that the rank has got. Returns what is
/// wrong, or an empty string.
std::string mistake(const CollectiveCase& one, const std::function<Result<Bytes>(Exchange&)>& operation,
                    const std::function<Bytes(int rank)>& expected) {
  SimulatedRanks ranks(one.size, {.seed = one.seed});
  std::vector<Bytes> got(static_cast<std::size_t>(one.size));
  const auto results = ranks.run([&](Exchange& exchange) -> Result<void> {
    auto result = operation(exchange);
    if (!result) return std::unexpected(result.error());
    got[static_cast<std::size_t>(exchange.rank())] = std::move(*result);
    return {};
  });
  if (!ranks.broken_rule().empty()) return one.words() + ": " + ranks.broken_rule();
  for (int rank = 0; rank < one.size; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    if (!results[index]) return one.words() + ": " + results[index].error().what;
    if (got[index] != expected(rank)) return one.words() + ": wrong bytes at rank " + std::to_string(rank);
  }
  if (ranks.counters().most_in_flight > 64) return one.words() + ": too many requests in flight";
  return {};
}

Result<Bytes> bytes_if(const Result<void>& done, Bytes bytes) {
  if (!done) return std::unexpected(done.error());
  return bytes;
}

/// Lengths of the parts of all ranks. About a quarter of them are 0.
std::vector<std::size_t> some_lengths(int count, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::size_t> lengths;
  for (int index = 0; index < count; ++index) lengths.push_back(random.below(4) == 0 ? 0 : random.below(120));
  return lengths;
}

std::size_t some_length(const CollectiveCase& one, std::size_t most = 150) {
  Random random(one.seed + 5);
  return random.below(8) == 0 ? 0 : random.below(most);
}

std::size_t sum_of(const std::vector<std::size_t>& lengths) {
  std::size_t sum = 0;
  for (const std::size_t length : lengths) sum += length;
  return sum;
}

std::vector<Bytes> parts_of(int size, const std::vector<std::size_t>& lengths, std::uint64_t salt) {
  std::vector<Bytes> parts;
  for (int rank = 0; rank < size; ++rank)
    parts.push_back(bytes_of(rank, lengths[static_cast<std::size_t>(rank)], salt));
  return parts;
}

std::vector<std::size_t> same_lengths(const CollectiveCase& one) {
  return std::vector<std::size_t>(static_cast<std::size_t>(one.size), some_length(one));
}

std::string broadcast_mistake(const CollectiveCase& one) {
  const std::size_t length = some_length(one, 900);
  const Bytes sent = bytes_of(one.root, length, one.seed);
  return mistake(
      one,
      [&](Exchange& exchange) {
        Bytes bytes = exchange.rank() == one.root ? sent : Bytes(length);
        const auto done = broadcast(exchange, bytes, one.root, one.tuning);
        return bytes_if(done, bytes);
      },
      [&](int) { return sent; });
}

std::string gather_mistake(const CollectiveCase& one, bool is_listed) {
  const auto lengths = is_listed ? some_lengths(one.size, one.seed) : same_lengths(one);
  const auto parts = parts_of(one.size, lengths, one.seed);
  return mistake(
      one,
      [&](Exchange& exchange) {
        const Bytes& mine = parts[static_cast<std::size_t>(exchange.rank())];
        Bytes all(exchange.rank() == one.root ? sum_of(lengths) : 0);
        const auto done = is_listed ? gather(exchange, mine, all, lengths, one.root)
                                    : gather(exchange, mine, all, one.root, one.tuning);
        return bytes_if(done, all);
      },
      [&](int rank) { return rank == one.root ? joined(parts) : Bytes{}; });
}

std::string scatter_mistake(const CollectiveCase& one, bool is_listed) {
  const auto lengths = is_listed ? some_lengths(one.size, one.seed) : same_lengths(one);
  const auto parts = parts_of(one.size, lengths, one.seed);
  return mistake(
      one,
      [&](Exchange& exchange) {
        Bytes mine(lengths[static_cast<std::size_t>(exchange.rank())]);
        const Bytes all = exchange.rank() == one.root ? joined(parts) : Bytes{};
        const auto done = is_listed ? scatter(exchange, all, lengths, mine, one.root)
                                    : scatter(exchange, all, mine, one.root, one.tuning);
        return bytes_if(done, mine);
      },
      [&](int rank) { return parts[static_cast<std::size_t>(rank)]; });
}

std::string all_gather_mistake(const CollectiveCase& one, bool is_listed, bool is_in_place) {
  const auto lengths = is_listed ? some_lengths(one.size, one.seed) : same_lengths(one);
  const auto parts = parts_of(one.size, lengths, one.seed);
  return mistake(
      one,
      [&](Exchange& exchange) {
        const auto rank = static_cast<std::size_t>(exchange.rank());
        Bytes all(sum_of(lengths));
        std::span<const std::byte> mine = parts[rank];
        if (is_in_place) {
          const std::size_t begin = sum_of({lengths.begin(), lengths.begin() + exchange.rank()});
          const auto own = std::span(all).subspan(begin, lengths[rank]);
          std::ranges::copy(mine, own.begin());
          mine = own;
        }
        const auto done = is_listed ? all_gather(exchange, mine, all, lengths, one.tuning)
                                    : all_gather(exchange, mine, all, one.tuning);
        return bytes_if(done, all);
      },
      [&](int) { return joined(parts); });
}

std::string all_to_all_mistake(const CollectiveCase& one, bool is_listed) {
  // lengths[a][b] is the length of the part from rank a to rank b, and parts[a][b] is this part.
  std::vector<std::vector<std::size_t>> lengths;
  std::vector<std::vector<Bytes>> parts;
  for (int rank = 0; rank < one.size; ++rank) {
    const std::uint64_t salt = one.seed * 100 + static_cast<std::uint64_t>(rank);
    lengths.push_back(is_listed ? some_lengths(one.size, salt) : same_lengths(one));
    parts.push_back(parts_of(one.size, lengths.back(), salt));
  }
  const auto parts_to = [&](int rank) {
    std::vector<Bytes> all;
    for (const auto& from : parts) all.push_back(from[static_cast<std::size_t>(rank)]);
    return all;
  };
  return mistake(
      one,
      [&](Exchange& exchange) {
        const auto rank = static_cast<std::size_t>(exchange.rank());
        const Bytes to = joined(parts[rank]);
        std::vector<std::size_t> from_lengths;
        for (const auto& from_one : lengths) from_lengths.push_back(from_one[rank]);
        Bytes from(sum_of(from_lengths));
        const auto done = is_listed ? all_to_all(exchange, to, lengths[rank], from, from_lengths)
                                    : all_to_all(exchange, to, from, one.tuning);
        return bytes_if(done, from);
      },
      [&](int rank) { return joined(parts_to(rank)); });
}

/// Runs all operations, and returns the first mistake.
std::string mistake_in_any_of(const CollectiveCase& one) {
  for (const std::string& wrong :
       {broadcast_mistake(one), gather_mistake(one, false), gather_mistake(one, true),
        scatter_mistake(one, false), scatter_mistake(one, true), all_gather_mistake(one, false, false),
        all_gather_mistake(one, true, false), all_to_all_mistake(one, false), all_to_all_mistake(one, true)})
    if (!wrong.empty()) return wrong;
  return {};
}

void require_none(const std::string& wrong) {
  BOOST_REQUIRE_MESSAGE(wrong.empty(), wrong);
}

BOOST_AUTO_TEST_CASE(a_broadcast_gives_all_ranks_the_bytes_of_the_root) {
  for_collective_cases(40, [](const CollectiveCase& one) { require_none(broadcast_mistake(one)); });
}

BOOST_AUTO_TEST_CASE(a_gather_gives_the_root_the_parts_in_the_order_of_the_ranks) {
  for_collective_cases(20, [](const CollectiveCase& one) {
    require_none(gather_mistake(one, false));
    require_none(gather_mistake(one, true));
  });
}

BOOST_AUTO_TEST_CASE(a_scatter_gives_each_rank_its_part) {
  for_collective_cases(20, [](const CollectiveCase& one) {
    require_none(scatter_mistake(one, false));
    require_none(scatter_mistake(one, true));
  });
}

BOOST_AUTO_TEST_CASE(an_all_gather_gives_all_ranks_all_parts) {
  for_collective_cases(20, [](const CollectiveCase& one) {
    require_none(all_gather_mistake(one, false, false));
    require_none(all_gather_mistake(one, true, false));
  });
}

BOOST_AUTO_TEST_CASE(the_own_part_of_an_all_gather_may_already_be_in_its_place) {
  for_collective_cases(10, [](const CollectiveCase& one) {
    require_none(all_gather_mistake(one, false, true));
    require_none(all_gather_mistake(one, true, true));
  });
}

BOOST_AUTO_TEST_CASE(an_all_to_all_gives_each_rank_its_part_of_each_rank) {
  for_collective_cases(20, [](const CollectiveCase& one) {
    require_none(all_to_all_mistake(one, false));
    require_none(all_to_all_mistake(one, true));
  });
}

BOOST_AUTO_TEST_CASE(each_operation_is_right_with_any_number_of_ranks_and_any_tuning) {
  const bool held = rc::check("copying operations", [] {
    const auto size = *rc::gen::inRange(1, 40);
    const auto seed = *rc::gen::inRange<std::uint64_t>(0, 1U << 30);
    const std::string wrong = mistake_in_any_of(collective_case(size, seed));
    if (!wrong.empty()) RC_FAIL(wrong);
  });
  BOOST_TEST(held);
}

BOOST_AUTO_TEST_CASE(one_operation_after_another_gets_only_its_own_messages) {
  for_collective_cases(5, [](const CollectiveCase& one) {
    Bytes expected = bytes_of(one.root, 50, 1);
    require_none(mistake(
        one,
        [&](Exchange& exchange) -> Result<Bytes> {
          Bytes bytes = exchange.rank() == one.root ? expected : Bytes(50);
          std::vector<Bytes> parts(static_cast<std::size_t>(one.size), bytes);
          Bytes all(50 * static_cast<std::size_t>(one.size));
          for (int repeat = 0; repeat < 3; ++repeat) {
            if (auto done = barrier(exchange); !done) return std::unexpected(done.error());
            if (auto done = broadcast(exchange, bytes, one.root, one.tuning); !done)
              return std::unexpected(done.error());
            if (auto done = all_gather(exchange, bytes, all, one.tuning); !done)
              return std::unexpected(done.error());
            if (auto done = scatter(exchange, all, bytes, one.root, one.tuning); !done)
              return std::unexpected(done.error());
            if (auto done = gather(exchange, bytes, all, one.root, one.tuning); !done)
              return std::unexpected(done.error());
          }
          return bytes;
        },
        [&](int) { return expected; }));
  });
}

BOOST_AUTO_TEST_CASE(no_rank_leaves_a_barrier_before_all_ranks_have_entered_it) {
  for_collective_cases(20, [](const CollectiveCase& one) {
    SimulatedRanks ranks(one.size, {.seed = one.seed});
    int entered = 0;
    bool is_early = false;
    const auto results = ranks.run([&](Exchange& exchange) {
      ++entered;
      const auto done = barrier(exchange);
      is_early |= entered < one.size;
      return done;
    });
    BOOST_REQUIRE(ranks.broken_rule().empty());
    BOOST_REQUIRE(!is_early);
    for (const auto& result : results) BOOST_REQUIRE(result.has_value());
  });
}

BOOST_AUTO_TEST_CASE(ranks_agree_on_the_largest_value) {
  for_collective_cases(5, [](const CollectiveCase& one) {
    const auto value_of_rank = [&](int rank) {
      return Random(one.seed * 100 + static_cast<std::uint64_t>(rank)).next();
    };
    std::uint64_t largest = 0;
    for (int rank = 0; rank < one.size; ++rank) largest = std::max(largest, value_of_rank(rank));
    SimulatedRanks ranks(one.size, {.seed = one.seed});
    int agreed = 0;
    ranks.run([&](Exchange& exchange) -> Result<void> {
      const auto result = agree_on_maximum(exchange, value_of_rank(exchange.rank()));
      agreed += result && *result == largest ? 1 : 0;
      return {};
    });
    BOOST_REQUIRE_EQUAL(agreed, one.size);
  });
}

BOOST_AUTO_TEST_CASE(a_split_orders_the_ranks_of_a_color_by_key_and_rank) {
  for_collective_cases(10, [](const CollectiveCase& one) {
    struct Choice {
      std::optional<int> color;
      int key;
    };
    std::vector<Choice> choices;
    Random random(one.seed);
    for (int rank = 0; rank < one.size; ++rank) {
      Choice choice{.color = static_cast<int>(random.below(3)) - 1,
                    .key = static_cast<int>(random.below(5)) - 2};
      if (random.below(4) == 0) choice.color.reset();
      choices.push_back(choice);
    }
    SimulatedRanks ranks(one.size, {.seed = one.seed});
    std::vector<std::vector<int>> members(static_cast<std::size_t>(one.size));
    const auto results = ranks.run([&](Exchange& exchange) -> Result<void> {
      const auto rank = static_cast<std::size_t>(exchange.rank());
      auto list = split_members(exchange, choices[rank].color, choices[rank].key);
      if (!list) return std::unexpected(list.error());
      members[rank] = std::move(*list);
      return {};
    });
    for (std::size_t rank = 0; rank < choices.size(); ++rank) {
      BOOST_REQUIRE(results[rank].has_value());
      std::vector<int> expected;
      for (int key = -2; key <= 2; ++key)
        for (int other = 0; other < one.size; ++other)
          if (choices[rank].color && choices[other].color == choices[rank].color && choices[other].key == key)
            expected.push_back(other);
      BOOST_REQUIRE(members[rank] == expected);
    }
  });
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::replica::collectives

// Tests the reductions: the order of the ranks with an operation that is not commutative, and the grouping
// with sums of real numbers, which must have the same bits in each run.
#include <rapidcheck.h>

#include <bit>
#include <boost/test/unit_test.hpp>

#include "tests/lib/replica/collective_cases.hpp"

namespace rdmc::replica::collectives {
BOOST_AUTO_TEST_SUITE(collective_reductions_test)
namespace {

enum class Reducing { reduce, all_reduce, scan, exclusive_scan, reduce_scatter };
constexpr std::array kReducings{Reducing::reduce, Reducing::all_reduce, Reducing::scan,
                                Reducing::exclusive_scan, Reducing::reduce_scatter};

/// A reduction of one vector of T at each rank.
template <typename T>
struct Problem {
  CollectiveCase one;
  std::size_t count = 0;  ///< elements of a vector; for reduce_scatter, a multiple of the number of ranks
  Combine combine = nullptr;
  std::function<std::vector<T>(int rank)> values;
};

template <typename T>
Result<std::vector<T>> outcome(Exchange& exchange, Reducing kind, const Problem<T>& problem) {
  std::vector<T> values = problem.values(exchange.rank());
  const auto bytes = std::as_writable_bytes(std::span(values));
  const Combine combine = problem.combine;
  const Tuning& tuning = problem.one.tuning;
  Result<void> done;
  switch (kind) {
    case Reducing::reduce:
      done = reduce(exchange, bytes, sizeof(T), combine, problem.one.root, tuning);
      if (exchange.rank() != problem.one.root) values.clear();
      break;
    case Reducing::all_reduce: done = all_reduce(exchange, bytes, sizeof(T), combine, tuning); break;
    case Reducing::scan: done = scan(exchange, bytes, sizeof(T), combine, tuning); break;
    case Reducing::exclusive_scan: done = exclusive_scan(exchange, bytes, sizeof(T), combine, tuning); break;
    case Reducing::reduce_scatter: {
      std::vector<T> mine(values.size() / static_cast<std::size_t>(exchange.size()));
      done = reduce_scatter(exchange, bytes, std::as_writable_bytes(std::span(mine)), sizeof(T), combine,
                            tuning);
      values = mine;
      break;
    }
  }
  if (!done) return std::unexpected(done.error());
  return values;
}

/// The results of all ranks. Sets `wrong` if something has failed.
template <typename T>
std::vector<std::vector<T>> outcomes(Reducing kind, const Problem<T>& problem, std::uint64_t delays,
                                     std::string& wrong) {
  const CollectiveCase& one = problem.one;
  SimulatedRanks ranks(one.size, {.seed = delays});
  std::vector<std::vector<T>> got(static_cast<std::size_t>(one.size));
  const auto results = ranks.run([&](Exchange& exchange) -> Result<void> {
    auto result = outcome(exchange, kind, problem);
    if (!result) return std::unexpected(result.error());
    got[static_cast<std::size_t>(exchange.rank())] = std::move(*result);
    return {};
  });
  if (!ranks.broken_rule().empty()) wrong = one.words() + ": " + ranks.broken_rule();
  for (const auto& result : results)
    if (!result) wrong = one.words() + ": " + result.error().what;
  if (ranks.counters().most_in_flight > 64) wrong = one.words() + ": too many requests in flight";
  return got;
}

template <typename T>
using Vectors = std::vector<std::vector<T>>;

template <typename T>
Vectors<T> all_values(const Problem<T>& problem) {
  Vectors<T> all;
  for (int rank = 0; rank < problem.one.size; ++rank) all.push_back(problem.values(rank));
  return all;
}

/// The combined values of the ranks from `first` to `last`, in the given grouping.
template <typename T>
using Combined = std::function<std::vector<T>(int first, int last)>;

template <typename T>
std::vector<T> expected_at(int rank, Reducing kind, const Problem<T>& problem, const Combined<T>& combined) {
  const int last = problem.one.size - 1;
  switch (kind) {
    case Reducing::reduce: return rank == problem.one.root ? combined(0, last) : std::vector<T>{};
    case Reducing::all_reduce: return combined(0, last);
    case Reducing::scan: return combined(0, rank);
    case Reducing::exclusive_scan: return rank == 0 ? problem.values(0) : combined(0, rank - 1);
    case Reducing::reduce_scatter: break;
  }
  const auto whole = combined(0, last);
  const auto part = static_cast<std::ptrdiff_t>(whole.size() / static_cast<std::size_t>(problem.one.size));
  return {whole.begin() + rank * part, whole.begin() + (rank + 1) * part};
}

template <typename T>
std::string mistake(Reducing kind, const Problem<T>& problem, const Combined<T>& combined) {
  std::string wrong;
  const auto got = outcomes(kind, problem, problem.one.seed, wrong);
  if (!wrong.empty()) return wrong;
  for (int rank = 0; rank < problem.one.size; ++rank)
    if (as_bytes_of(got[static_cast<std::size_t>(rank)]) !=
        as_bytes_of(expected_at(rank, kind, problem, combined)))
      return problem.one.words() + ": wrong values at rank " + std::to_string(rank) + " in operation " +
             std::to_string(static_cast<int>(kind));
  return {};
}

std::size_t some_count(const CollectiveCase& one, Reducing kind) {
  Random random(one.seed + 9);
  const std::size_t count = random.below(6) == 0 ? 0 : random.below(60);
  if (kind != Reducing::reduce_scatter) return count;
  return count % 9 * static_cast<std::size_t>(one.size);
}

Problem<Affine> affine_problem(const CollectiveCase& one, Reducing kind) {
  const std::size_t count = some_count(one, kind);
  return {.one = one, .count = count, .combine = combine_affine, .values = [count, one](int rank) {
            return affine_values(rank, count, one.seed);
          }};
}

std::string order_mistake(const CollectiveCase& one, Reducing kind) {
  const auto problem = affine_problem(one, kind);
  const auto all = all_values(problem);
  return mistake<Affine>(kind, problem, [&](int first, int last) {
    std::vector<Affine> sum = all[static_cast<std::size_t>(first)];
    for (int rank = first + 1; rank <= last; ++rank)
      for (std::size_t index = 0; index < sum.size(); ++index)
        sum[index] = sum[index].then(all[static_cast<std::size_t>(rank)][index]);
    return sum;
  });
}

BOOST_AUTO_TEST_CASE(values_are_combined_in_the_order_of_the_ranks) {
  for (const Reducing kind : kReducings)
    for_collective_cases(30, [&](const CollectiveCase& one) {
      const std::string wrong = order_mistake(one, kind);
      BOOST_REQUIRE_MESSAGE(wrong.empty(), wrong);
    });
}

BOOST_AUTO_TEST_CASE(values_are_combined_in_order_with_any_number_of_ranks_and_any_tuning) {
  const bool held = rc::check("reductions", [] {
    const auto size = *rc::gen::inRange(1, 40);
    const auto seed = *rc::gen::inRange<std::uint64_t>(0, 1U << 30);
    for (const Reducing kind : kReducings) {
      const std::string wrong = order_mistake(collective_case(size, seed), kind);
      if (!wrong.empty()) RC_FAIL(wrong);
    }
  });
  BOOST_TEST(held);
}

Problem<double> real_problem(const CollectiveCase& one, Reducing kind) {
  const std::size_t count = some_count(one, kind);
  return {.one = one,
          .count = count,
          .combine = combine_of<double>(Operation::sum),
          .values = [count, one](int rank) { return real_values(rank, count, one.seed); }};
}

std::vector<double> added(std::vector<double> lower, const std::vector<double>& upper) {
  for (std::size_t index = 0; index < lower.size(); ++index) lower[index] += upper[index];
  return lower;
}

/// The grouping that collectives.hpp promises: pairs of the first ranks until the number of values is a power
/// of two, then neighbours.
std::vector<double> grouped_sum(Vectors<double> all) {
  const std::size_t power = std::bit_floor(all.size());
  for (std::size_t index = 0; all.size() > power; ++index) {
    all[index] = added(all[index], all[index + 1]);
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(index) + 1);
  }
  while (all.size() > 1) {
    for (std::size_t index = 0; index < all.size() / 2; ++index)
      all[index] = added(all[2 * index], all[2 * index + 1]);
    all.resize(all.size() / 2);
  }
  return all[0];
}

BOOST_AUTO_TEST_CASE(sums_of_real_numbers_have_the_promised_grouping_with_each_algorithm_and_root) {
  for (const Reducing kind : {Reducing::reduce, Reducing::all_reduce, Reducing::reduce_scatter})
    for_collective_cases(30, [&](const CollectiveCase& one) {
      const auto problem = real_problem(one, kind);
      const auto sum = grouped_sum(all_values(problem));
      const std::string wrong = mistake<double>(kind, problem, [&](int, int) { return sum; });
      BOOST_REQUIRE_MESSAGE(wrong.empty(), wrong);
    });
}

BOOST_AUTO_TEST_CASE(sums_of_real_numbers_have_the_same_bits_in_any_order_of_delivery) {
  for (const Reducing kind : kReducings)
    for_collective_cases(5, [&](const CollectiveCase& one) {
      const auto problem = real_problem(one, kind);
      std::string wrong;
      const auto first = outcomes(kind, problem, 1, wrong);
      for (std::uint64_t delays = 2; delays < 6; ++delays) {
        const auto other = outcomes(kind, problem, delays, wrong);
        for (std::size_t rank = 0; rank < first.size(); ++rank)
          BOOST_REQUIRE(as_bytes_of(first[rank]) == as_bytes_of(other[rank]));
      }
      BOOST_REQUIRE_MESSAGE(wrong.empty(), wrong);
    });
}

BOOST_AUTO_TEST_CASE(the_promised_grouping_is_another_one_than_that_of_a_loop) {
  const auto problem = real_problem({.size = 16, .seed = 3}, Reducing::all_reduce);
  auto loop = problem.values(0);
  for (int rank = 1; rank < 16; ++rank) loop = added(loop, problem.values(rank));
  BOOST_TEST(!loop.empty());
  BOOST_CHECK(loop != grouped_sum(all_values(problem)));
}

BOOST_AUTO_TEST_CASE(vectors_of_megabytes_are_reduced_with_the_usual_tuning) {
  for (const int size : {2, 3, 4, 6, 8}) {
    for (const Reducing kind : kReducings) {
      const std::size_t count = all_or(std::size_t{180'000}, std::size_t{48'000});  // a multiple of each size
      Problem<double> problem{.one = {.size = size, .root = size - 1, .seed = 4},
                              .count = count,
                              .combine = combine_of<double>(Operation::maximum),
                              .values = [&](int rank) { return real_values(rank, count, 4); }};
      const auto all = all_values(problem);
      const std::string wrong = mistake<double>(kind, problem, [&](int first, int last) {
        auto most = all[static_cast<std::size_t>(first)];
        for (int rank = first; rank <= last; ++rank)
          for (std::size_t index = 0; index < count; ++index)
            most[index] = std::max(most[index], all[static_cast<std::size_t>(rank)][index]);
        return most;
      });
      BOOST_REQUIRE_MESSAGE(wrong.empty(), wrong);
    }
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::replica::collectives

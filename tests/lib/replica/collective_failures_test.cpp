// Tests the errors: arguments that do not fit, and sends and receives that fail.
#include <array>
#include <boost/test/unit_test.hpp>

#include "tests/lib/replica/collective_cases.hpp"

namespace rdmc::replica::collectives {
BOOST_AUTO_TEST_SUITE(collective_failures_test)
namespace {

using Operate = std::function<Result<void>(Exchange&, const CollectiveCase&)>;

constexpr std::size_t kPart = 48;

/// All operations, each with vectors of which all bytes are known.
std::vector<std::pair<const char*, Operate>> all_operations() {
  const auto whole = [](Exchange& exchange) {
    return Bytes(kPart * static_cast<std::size_t>(exchange.size()), std::byte{1});
  };
  const auto lengths = [](Exchange& exchange) {
    return std::vector<std::size_t>(static_cast<std::size_t>(exchange.size()), kPart);
  };
  const Bytes part(kPart, std::byte{1});
  return {
      {"barrier", [](Exchange& exchange, const CollectiveCase&) { return barrier(exchange); }},
      {"broadcast",
       [=](Exchange& exchange, const CollectiveCase& one) {
         Bytes bytes(400);
         return broadcast(exchange, bytes, one.root, one.tuning);
       }},
      {"gather",
       [=](Exchange& exchange, const CollectiveCase& one) {
         Bytes all = whole(exchange);
         return gather(exchange, part, all, one.root, one.tuning);
       }},
      {"gather with lengths",
       [=](Exchange& exchange, const CollectiveCase& one) {
         Bytes all = whole(exchange);
         return gather(exchange, part, all, lengths(exchange), one.root);
       }},
      {"scatter",
       [=](Exchange& exchange, const CollectiveCase& one) {
         Bytes mine(kPart);
         return scatter(exchange, whole(exchange), mine, one.root, one.tuning);
       }},
      {"scatter with lengths",
       [=](Exchange& exchange, const CollectiveCase& one) {
         Bytes mine(kPart);
         return scatter(exchange, whole(exchange), lengths(exchange), mine, one.root);
       }},
      {"all_gather",
       [=](Exchange& exchange, const CollectiveCase& one) {
         Bytes all = whole(exchange);
         return all_gather(exchange, part, all, one.tuning);
       }},
      {"all_gather with lengths",
       [=](Exchange& exchange, const CollectiveCase& one) {
         Bytes all = whole(exchange);
         return all_gather(exchange, part, all, lengths(exchange), one.tuning);
       }},
      {"all_to_all",
       [=](Exchange& exchange, const CollectiveCase& one) {
         Bytes from = whole(exchange);
         return all_to_all(exchange, whole(exchange), from, one.tuning);
       }},
      {"all_to_all with lengths",
       [=](Exchange& exchange, const CollectiveCase&) {
         Bytes from = whole(exchange);
         return all_to_all(exchange, whole(exchange), lengths(exchange), from, lengths(exchange));
       }},
      {"reduce",
       [=](Exchange& exchange, const CollectiveCase& one) {
         Bytes values = whole(exchange);
         return reduce(exchange, values, sizeof(Affine), combine_affine, one.root, one.tuning);
       }},
      {"all_reduce",
       [=](Exchange& exchange, const CollectiveCase& one) {
         Bytes values = whole(exchange);
         return all_reduce(exchange, values, sizeof(Affine), combine_affine, one.tuning);
       }},
      {"reduce_scatter",
       [=](Exchange& exchange, const CollectiveCase& one) {
         Bytes values = whole(exchange), mine(kPart);
         return reduce_scatter(exchange, values, mine, sizeof(Affine), combine_affine, one.tuning);
       }},
      {"scan",
       [=](Exchange& exchange, const CollectiveCase& one) {
         Bytes values = whole(exchange);
         return scan(exchange, values, sizeof(Affine), combine_affine, one.tuning);
       }},
      {"exclusive_scan",
       [=](Exchange& exchange, const CollectiveCase& one) {
         Bytes values = whole(exchange);
         return exclusive_scan(exchange, values, sizeof(Affine), combine_affine, one.tuning);
       }},
      {"split",
       [](Exchange& exchange, const CollectiveCase&) -> Result<void> {
         const auto members = split_members(exchange, 1, 1);
         if (!members) return std::unexpected(members.error());
         return {};
       }},
  };
}

/// Runs an operation of which one send or receive fails, and checks what has happened.
void fail_once(const Operate& operate, const CollectiveCase& one, SimulatedRanks::Failure failure,
               const std::string& words) {
  SimulatedRanks ranks(one.size, {.seed = one.seed, .failure = failure});
  const auto results = ranks.run([&](Exchange& exchange) { return operate(exchange, one); });
  BOOST_REQUIRE_MESSAGE(ranks.broken_rule().empty(), words << ": " << ranks.broken_rule());
  const auto first = std::ranges::count_if(
      results, [](const auto& result) { return !result && result.error().what == "injected"; });
  BOOST_REQUIRE_MESSAGE(first == 1, words << ": " << first << " ranks have returned the error");
}

BOOST_AUTO_TEST_CASE(a_failed_send_or_receive_is_returned_and_leaves_no_request) {
  const std::uint64_t failures = all_or(12U, 3U);
  for (const auto& [name, operate] : all_operations()) {
    for (const int size : {2, 3, 5, 8, 13, 17}) {
      for (std::uint64_t seed = 0; seed < failures; ++seed) {
        const CollectiveCase one = collective_case(size, seed);
        SimulatedRanks whole(size, {.seed = seed});
        const auto results = whole.run([&](Exchange& exchange) { return operate(exchange, one); });
        BOOST_REQUIRE_MESSAGE(whole.broken_rule().empty(), name << ": " << whole.broken_rule());
        for (const auto& result : results) BOOST_REQUIRE(result.has_value());
        Random random(seed);
        const std::uint64_t operation = random.below(whole.counters().operations);
        for (const bool at_begin : {false, true})
          fail_once(operate, one, {.operation = operation, .at_begin = at_begin},
                    std::string(name) + ", " + one.words() + ", operation " + std::to_string(operation));
      }
    }
  }
}

/// Checks that `call` is refused at rank 1 of 3 before it begins a request.
void require_refused(const char* words, const std::function<Result<void>(Exchange&)>& call) {
  SimulatedRanks ranks(3, {});
  const auto results = ranks.run([&](Exchange& exchange) -> Result<void> {
    if (exchange.rank() != 1) return {};
    return call(exchange);
  });
  BOOST_REQUIRE_MESSAGE(!results[1].has_value(), words);
  BOOST_TEST_REQUIRE((results[1].error().code == Errc::invalid_argument), words);
  BOOST_REQUIRE_EQUAL(ranks.counters().operations, 0U);
}

BOOST_AUTO_TEST_CASE(a_root_that_is_no_rank_is_refused) {
  for (const int root : {-1, 3}) {
    Bytes part(8), all(24);
    const std::vector<std::size_t> lengths(3, 8);
    require_refused("broadcast", [&](Exchange& exchange) { return broadcast(exchange, all, root); });
    require_refused("gather", [&](Exchange& exchange) { return gather(exchange, part, all, root); });
    require_refused("gather with lengths",
                    [&](Exchange& exchange) { return gather(exchange, part, all, lengths, root); });
    require_refused("scatter", [&](Exchange& exchange) { return scatter(exchange, all, part, root); });
    require_refused("scatter with lengths",
                    [&](Exchange& exchange) { return scatter(exchange, all, lengths, part, root); });
    require_refused("reduce",
                    [&](Exchange& exchange) { return reduce(exchange, all, 8, combine_affine, root); });
  }
}

BOOST_AUTO_TEST_CASE(lengths_that_do_not_fit_are_refused) {
  Bytes part(8), all(24), longer(25);
  const std::vector<std::size_t> lengths(3, 8), two(2, 12), other{7, 9, 8},
      huge{~std::size_t{0}, 9, ~std::size_t{0}};
  for (Bytes* const wrong : {&longer, &part}) {
    require_refused("gather", [&](Exchange& exchange) { return gather(exchange, part, *wrong, 1); });
    require_refused("scatter", [&](Exchange& exchange) { return scatter(exchange, *wrong, part, 1); });
    require_refused("all_gather", [&](Exchange& exchange) { return all_gather(exchange, part, *wrong); });
    require_refused("all_to_all", [&](Exchange& exchange) { return all_to_all(exchange, all, *wrong); });
    require_refused("all_to_all", [&](Exchange& exchange) { return all_to_all(exchange, *wrong, all); });
    require_refused("reduce_scatter", [&](Exchange& exchange) {
      return reduce_scatter(exchange, *wrong, part, 8, combine_affine);
    });
    require_refused("gather with lengths",
                    [&](Exchange& exchange) { return gather(exchange, part, *wrong, lengths, 1); });
    require_refused("scatter with lengths",
                    [&](Exchange& exchange) { return scatter(exchange, *wrong, lengths, part, 1); });
  }
  for (const auto& wrong : {two, other, huge}) {
    require_refused("gather with lengths",
                    [&](Exchange& exchange) { return gather(exchange, part, all, wrong, 1); });
    require_refused("scatter with lengths",
                    [&](Exchange& exchange) { return scatter(exchange, all, wrong, part, 1); });
    require_refused("all_gather with lengths",
                    [&](Exchange& exchange) { return all_gather(exchange, part, all, wrong); });
    require_refused("all_to_all with lengths",
                    [&](Exchange& exchange) { return all_to_all(exchange, all, lengths, all, wrong); });
    require_refused("all_to_all with lengths",
                    [&](Exchange& exchange) { return all_to_all(exchange, all, wrong, all, lengths); });
  }
}

BOOST_AUTO_TEST_CASE(values_that_are_no_elements_and_missing_operations_are_refused) {
  Bytes values(24), mine(8);
  struct Wrong {
    std::size_t element;
    Combine combine;
  };
  for (const Wrong wrong :
       {Wrong{0, combine_affine}, {7, combine_affine}, {16, combine_affine}, {8, nullptr}}) {
    const auto& [element, combine] = wrong;
    require_refused("reduce",
                    [&](Exchange& exchange) { return reduce(exchange, values, element, combine, 1); });
    require_refused("all_reduce",
                    [&](Exchange& exchange) { return all_reduce(exchange, values, element, combine); });
    require_refused("scan", [&](Exchange& exchange) { return scan(exchange, values, element, combine); });
    require_refused("exclusive_scan",
                    [&](Exchange& exchange) { return exclusive_scan(exchange, values, element, combine); });
    require_refused("reduce_scatter", [&](Exchange& exchange) {
      return reduce_scatter(exchange, values, mine, element, combine);
    });
  }
  // A part that is no whole number of elements, although the vector is one.
  Bytes parts(24), part(8);
  require_refused("reduce_scatter", [&](Exchange& exchange) {
    return reduce_scatter(exchange, parts, part, 12, combine_affine);
  });
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::replica::collectives

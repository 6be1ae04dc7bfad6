// Tests how many steps and bytes the collective operations need. In the simulation's virtual time, a rank
// sends one message at a time and receives one message at a time.
#include <bit>
#include <boost/test/unit_test.hpp>

#include "tests/lib/replica/collective_cases.hpp"

namespace rdmc::replica::collectives {
BOOST_AUTO_TEST_SUITE(collective_steps_test)
namespace {

const std::vector<int> kSizes =
    all_or(std::vector{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 33, 64, 100},
           std::vector{1, 2, 3, 6, 8, 13});

std::uint64_t depth(int size) {
  return static_cast<std::uint64_t>(std::bit_width(static_cast<unsigned>(size - 1)));
}

SimulatedRanks::Counters cost_of(int size, const std::function<Result<void>(Exchange&)>& operate,
                                 const std::function<std::uint64_t(std::size_t)>& cost) {
  SimulatedRanks ranks(size, {.cost = cost});
  const auto results = ranks.run(operate);
  BOOST_REQUIRE_MESSAGE(ranks.broken_rule().empty(), ranks.broken_rule());
  for (const auto& result : results) BOOST_REQUIRE(result.has_value());
  return ranks.counters();
}

/// The cost if each message takes one step.
SimulatedRanks::Counters steps_of(int size, const std::function<Result<void>(Exchange&)>& operate) {
  return cost_of(size, operate, [](std::size_t) { return 1; });
}

/// The cost if each message takes `start` and one unit for each byte.
SimulatedRanks::Counters time_of(int size, const std::function<Result<void>(Exchange&)>& operate,
                                 std::uint64_t start) {
  return cost_of(size, operate, [start](std::size_t bytes) { return start + bytes; });
}

std::size_t times(std::size_t bytes, int size) {
  return bytes * static_cast<std::size_t>(size);
}

BOOST_AUTO_TEST_CASE(a_barrier_takes_the_binary_logarithm_of_the_ranks_in_steps) {
  for (const int size : kSizes) {
    const auto cost = steps_of(size, [](Exchange& exchange) { return barrier(exchange); });
    BOOST_TEST(cost.time == depth(size));
    BOOST_TEST(cost.messages == depth(size) * static_cast<std::uint64_t>(size));
  }
}

BOOST_AUTO_TEST_CASE(a_short_broadcast_takes_the_binary_logarithm_of_the_ranks_in_steps) {
  for (const int size : kSizes) {
    for (const int root : {0, size / 2, size - 1}) {
      const auto cost = steps_of(size, [&](Exchange& exchange) {
        Bytes bytes(100);
        return broadcast(exchange, bytes, root);
      });
      BOOST_TEST(cost.time == depth(size));
      BOOST_TEST(cost.messages == static_cast<std::uint64_t>(size - 1));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_broadcast_of_k_blocks_takes_k_minus_1_steps_more_than_one_of_a_single_block) {
  for (const int size : kSizes) {
    if (size <= 2) continue;
    for (const std::size_t blocks : {2U, 3U, 5U, 16U, 61U, all_or(200U, 40U)}) {
      // Messages without a time to start are cut into the smallest blocks, and the last block is shorter.
      const Tuning tuning{.start_bytes = 0, .broadcast_block_bytes = 1};
      const auto cost = steps_of(size, [&](Exchange& exchange) {
        Bytes bytes(blocks);
        return broadcast(exchange, bytes, size / 3, tuning);
      });
      BOOST_TEST(cost.time == blocks - 1 + depth(size), size << " ranks, " << blocks << " blocks");
      BOOST_TEST(cost.messages == blocks * static_cast<std::uint64_t>(size - 1));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_long_broadcast_takes_little_longer_than_its_bytes) {
  const Tuning tuning;
  constexpr std::size_t kBytes = 8 << 20;
  for (const int size : {3, 8, 17}) {
    const std::size_t block = broadcast_block_bytes(kBytes, size);
    BOOST_TEST(block < kBytes);
    const auto cost = time_of(
        size,
        [&](Exchange& exchange) {
          Bytes bytes(kBytes);
          return broadcast(exchange, bytes, 1);
        },
        tuning.start_bytes);
    const std::uint64_t blocks = (kBytes + block - 1) / block;
    BOOST_TEST(cost.time <= (blocks - 1 + depth(size)) * (block + tuning.start_bytes));
    BOOST_TEST(cost.time < 15 * kBytes / 10);
  }
}

BOOST_AUTO_TEST_CASE(the_length_of_a_block_minimizes_the_time_of_the_model) {
  const Tuning tuning{.broadcast_block_bytes = 1 << 30};
  for (const int size : {3, 4, 9, 64, 1000}) {
    for (const std::size_t bytes : {1'000U, 100'000U, 1'000'000U, 50'000'000U}) {
      const auto model = [&](std::size_t block) {
        if (block == bytes) return depth(size) * (tuning.start_bytes + bytes);
        return ((bytes + block - 1) / block - 1 + depth(size)) * (tuning.start_bytes + block);
      };
      const std::uint64_t chosen = model(broadcast_block_bytes(bytes, size, tuning));
      for (std::size_t block = bytes; block > 100; block = block * 9 / 10)
        BOOST_TEST(static_cast<double>(chosen) <= 1.15 * static_cast<double>(model(block)));
    }
  }
  BOOST_TEST(broadcast_block_bytes(1 << 30, 2) == std::size_t{1} << 30);
}

BOOST_AUTO_TEST_CASE(short_parts_are_gathered_and_scattered_in_the_binary_logarithm_of_the_ranks) {
  for (const int size : kSizes) {
    const auto gathered = steps_of(size, [&](Exchange& exchange) {
      Bytes mine(8), all(times(8, size));
      return gather(exchange, mine, all, 0);
    });
    BOOST_TEST(gathered.time == depth(size));
    const auto scattered = steps_of(size, [&](Exchange& exchange) {
      Bytes mine(8), all(times(8, size));
      return scatter(exchange, all, mine, 0);
    });
    BOOST_TEST(scattered.time == depth(size));
    // With another root, the parts of one child of the root can be in two pieces.
    const auto moved = steps_of(size, [&](Exchange& exchange) {
      Bytes mine(8), all(times(8, size));
      return gather(exchange, mine, all, size / 2);
    });
    BOOST_TEST(moved.time <= depth(size) + 1);
  }
}

BOOST_AUTO_TEST_CASE(an_all_gather_takes_logarithmic_steps_for_short_parts_and_n_minus_1_for_long_ones) {
  for (const int size : kSizes) {
    const auto run = [&](std::size_t part, const Tuning& tuning) {
      return steps_of(size, [&, part](Exchange& exchange) {
        Bytes mine(part), all(times(part, size));
        return all_gather(exchange, mine, all, tuning);
      });
    };
    const auto brief = run(8, {});
    BOOST_TEST(brief.time == depth(size));
    BOOST_TEST(brief.most_sent == times(8, size - 1));
    const auto ring = run(100, {.start_bytes = 10, .block_bytes = 100});
    BOOST_TEST(ring.time == static_cast<std::uint64_t>(size - 1));
    BOOST_TEST(ring.most_sent == times(100, size - 1));
  }
}

BOOST_AUTO_TEST_CASE(the_blocks_of_one_long_part_go_around_the_ring_one_after_another) {
  for (const int size : {3, 8, 17}) {
    std::vector<std::size_t> lengths(static_cast<std::size_t>(size), 0);
    lengths[1] = 5000;
    const auto cost = steps_of(size, [&](Exchange& exchange) {
      const Bytes mine(exchange.rank() == 1 ? 5000 : 0);
      Bytes all(5000);
      return all_gather(exchange, mine, all, lengths, {.start_bytes = 10, .block_bytes = 50});
    });
    BOOST_TEST(cost.time == 100 + static_cast<std::uint64_t>(size) - 2);
  }
}

BOOST_AUTO_TEST_CASE(an_all_to_all_takes_logarithmic_steps_for_tiny_parts_and_n_minus_1_for_others) {
  for (const int size : kSizes) {
    const auto run = [&](std::size_t part) {
      return steps_of(size, [&, part](Exchange& exchange) {
        Bytes to(times(part, size)), from(times(part, size));
        return all_to_all(exchange, to, from);
      });
    };
    BOOST_TEST(run(16).time == (size > 4 ? depth(size) : static_cast<std::uint64_t>(size - 1)));
    BOOST_TEST(run(1000).time == static_cast<std::uint64_t>(size - 1));
  }
}

SimulatedRanks::Counters reduction(int size, std::size_t bytes, std::optional<int> root, const Tuning& tuning,
                                   std::uint64_t start) {
  const auto operate = [&](Exchange& exchange) {
    Bytes values(bytes);
    if (root) return reduce(exchange, values, 8, combine_affine, *root, tuning);
    return all_reduce(exchange, values, 8, combine_affine, tuning);
  };
  return start == 0 ? steps_of(size, operate) : time_of(size, operate, start);
}

BOOST_AUTO_TEST_CASE(a_short_vector_is_reduced_in_the_binary_logarithm_of_the_ranks_with_each_root) {
  for (const int size : kSizes)
    for (const int root : {0, size / 2, size - 1})
      BOOST_TEST(reduction(size, 64, root, {}, 0).time == depth(size), size << " ranks, root " << root);
}

BOOST_AUTO_TEST_CASE(a_short_all_reduce_takes_at_most_one_step_more) {
  for (const int size : kSizes) {
    const bool is_power = std::has_single_bit(static_cast<unsigned>(size));
    BOOST_TEST(reduction(size, 64, std::nullopt, {}, 0).time == depth(size) + (is_power ? 0 : 1));
  }
}

BOOST_AUTO_TEST_CASE(a_long_all_reduce_sends_each_byte_twice_at_most) {
  const Tuning tuning{.start_bytes = 10};
  constexpr std::size_t kBytes = 64 << 10;
  for (const int size : {3, 4, 5, 8, 13, 16}) {
    const auto cost = reduction(size, kBytes, std::nullopt, tuning, tuning.start_bytes);
    BOOST_TEST(cost.most_sent <= 2 * kBytes);
    BOOST_TEST(cost.time <= 22 * kBytes / 10);
  }
}

BOOST_AUTO_TEST_CASE(a_long_reduce_sends_each_byte_twice_at_most) {
  const Tuning tuning{.start_bytes = 10};
  constexpr std::size_t kBytes = 64 << 10;
  for (const int size : {4, 5, 8, 13, 16}) {
    const auto cost = reduction(size, kBytes, 2, tuning, tuning.start_bytes);
    BOOST_TEST(cost.most_sent <= 2 * kBytes);
    BOOST_TEST(cost.time <= 23 * kBytes / 10);
  }
}

BOOST_AUTO_TEST_CASE(a_long_reduce_scatter_sends_each_byte_once) {
  const Tuning tuning{.start_bytes = 10};
  for (const int size : {3, 5, 8, 16}) {
    constexpr std::size_t kPart = 8 << 10;
    const auto cost = time_of(
        size,
        [&](Exchange& exchange) {
          Bytes values(times(kPart, size)), mine(kPart);
          return reduce_scatter(exchange, values, mine, 8, combine_affine, tuning);
        },
        tuning.start_bytes);
    BOOST_TEST(cost.most_sent == times(kPart, size - 1));
    BOOST_TEST(cost.time <= 12 * times(kPart, size) / 10);
  }
}

BOOST_AUTO_TEST_CASE(a_scan_takes_the_binary_logarithm_of_the_ranks_in_steps) {
  for (const int size : kSizes) {
    const auto inclusive = steps_of(size, [](Exchange& exchange) {
      Bytes values(64);
      return scan(exchange, values, 8, combine_affine);
    });
    BOOST_TEST(inclusive.time == depth(size));
    const auto exclusive = steps_of(size, [](Exchange& exchange) {
      Bytes values(64);
      return exclusive_scan(exchange, values, 8, combine_affine);
    });
    BOOST_TEST(exclusive.time == depth(size));
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::replica::collectives

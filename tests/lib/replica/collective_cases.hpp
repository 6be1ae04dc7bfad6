// What the tests of the collective operations have in common: random cases, values that are known to all
// ranks, and operations that are not commutative.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "dataplane/base/random.hpp"
#include "lib/replica/collectives.hpp"
#include "tests/lib/replica/simulated_ranks.hpp"
#include "tests/sampled.hpp"

namespace rdmc::replica::collectives {

using Bytes = std::vector<std::byte>;

/// Tunings with small sizes, so that short messages follow all algorithms.
inline Tuning small_tuning(Random& random) {
  return {.start_bytes = random.below(4) == 0 ? 0 : random.below(200),
          .broadcast_block_bytes = 1 + random.below(64),
          .block_bytes = 1 + random.below(64),
          .tree_part_bytes = random.below(64),
          .forwarded_part_bytes = random.below(64),
          .whole_vector_bytes = random.below(400),
          .direct_reduction_bytes = random.below(2000)};
}

struct CollectiveCase {
  int size = 1;
  int root = 0;
  Tuning tuning{};
  std::uint64_t seed = 0;
  std::string words() const {
    return std::to_string(size) + " ranks, root " + std::to_string(root) + ", seed " + std::to_string(seed);
  }
};

inline CollectiveCase collective_case(int size, std::uint64_t seed) {
  Random random(seed * 1000 + static_cast<std::uint64_t>(size));
  return {.size = size,
          .root = static_cast<int>(random.below(static_cast<std::uint64_t>(size))),
          .tuning = small_tuning(random),
          .seed = seed};
}

/// Calls `test` for cases with all sizes up to 17, and with some larger ones.
inline void for_collective_cases(std::uint64_t seeds,
                                 const std::function<void(const CollectiveCase&)>& test) {
  const std::uint64_t first = from_environment("RDMC_FIRST_SEED", 0);
  for (int size = 1; size <= 17; ++size)
    for (std::uint64_t seed = 0; seed < all_or(seeds, std::uint64_t{2}); ++seed)
      test(collective_case(size, first + seed));
  if (is_sampled()) return;
  for (const int size : {33, 64})
    for (std::uint64_t seed = 0; seed < 4; ++seed) test(collective_case(size, first + seed));
}

/// The bytes that `rank` contributes. They depend on `salt`, so that two vectors of a rank differ.
inline Bytes bytes_of(int rank, std::size_t length, std::uint64_t salt) {
  Random random(salt * 100'000 + static_cast<std::uint64_t>(rank));
  Bytes bytes(length);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

inline Bytes joined(const std::vector<Bytes>& parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

template <typename T>
Bytes as_bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

/// The map x -> factor * x + offset, modulo 2^32. The composition of such maps is associative and not
/// commutative.
struct Affine {
  std::uint32_t factor = 1, offset = 0;
  friend bool operator==(const Affine&, const Affine&) = default;
  /// First this map, and then `next`.
  Affine then(Affine next) const { return {factor * next.factor, next.factor * offset + next.offset}; }
};

inline void combine_affine(const std::byte* in, std::byte* inout, std::size_t count) {
  for (std::size_t index = 0; index < count; ++index) {
    Affine lower, upper;
    std::memcpy(&lower, in + index * sizeof(Affine), sizeof(Affine));
    std::memcpy(&upper, inout + index * sizeof(Affine), sizeof(Affine));
    upper = lower.then(upper);
    std::memcpy(inout + index * sizeof(Affine), &upper, sizeof(Affine));
  }
}

inline std::vector<Affine> affine_values(int rank, std::size_t count, std::uint64_t salt) {
  const Bytes bytes = bytes_of(rank, count * sizeof(Affine), salt);
  std::vector<Affine> values(count);
  if (count > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Numbers of very different sizes, so that each grouping gives another sum.
inline std::vector<double> real_values(int rank, std::size_t count, std::uint64_t salt) {
  Random random(salt * 77'777 + static_cast<std::uint64_t>(rank));
  std::vector<double> values;
  for (std::size_t index = 0; index < count; ++index) {
    const auto digits = static_cast<double>(random.between(1, 1U << 30));
    values.push_back(digits * static_cast<double>(std::uint64_t{1} << random.below(60)));
    if (random.below(2) == 0) values.back() = -values.back();
  }
  return values;
}

}  // namespace rdmc::replica::collectives

// Chooses the keys that are evicted when keys and values need too much memory. A choice among all keys would
// take too long, so it looks at some random keys, and keeps the best candidates of earlier choices (Redis,
// "Key eviction", section "Approximated LRU algorithm"). Its random numbers are its own: only the chosen keys
// are agreed between servers. One thread uses it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/replicated-kv/data/databases.hpp"

namespace rdmc::kv {

class Victims {
 public:
  struct Victim {
    std::uint32_t database = 0;
    std::string key;
  };

  explicit Victims(std::uint64_t seed) : random_(seed) {}

  /// Chooses up to `count` different keys by the policy of the limit. `samples` is the number of random keys
  /// that are looked at for each of them.
  std::vector<Victim> choose(Databases& databases, std::size_t count, std::size_t samples);

 private:
  struct Candidate {
    std::uint32_t badness;
    Victim victim;
  };
  static constexpr std::size_t kMostCandidates = 16;

  std::uint64_t below(std::uint64_t most);
  /// A random key that may be evicted. There must be one.
  Victim any(Databases& databases);
  void look(Databases& databases, std::size_t samples);
  static std::vector<Victim> earliest(Databases& databases, std::size_t count);

  std::vector<Candidate> candidates_;  // the best one is the last one
  std::uint64_t random_;
};

}  // namespace rdmc::kv

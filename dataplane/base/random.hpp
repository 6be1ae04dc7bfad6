// A small seeded random number generator (xoshiro256**, Blackman and Vigna 2018). Cores and the simulator
// receive a generator from their owner, so that a run is a function of its seed. It must not be used for
// secrets: the keys, QPNs and first PSNs of real connections come from the operating system (see
// controlplane/auth).
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace rdmc {

class Random {
 public:
  explicit constexpr Random(std::uint64_t seed) {
    for (auto& word : state_) {  // splitmix64, which the authors recommend for seeding
      seed += 0x9E3779B97F4A7C15;
      std::uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
      word = z ^ (z >> 31);
    }
  }

  constexpr std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// Returns a number that is uniformly distributed in [0, bound). Precondition: bound > 0.
  constexpr std::uint64_t below(std::uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(next()) * bound) >> 64);
  }
  /// Returns a number that is uniformly distributed in [low, high], including both ends.
  constexpr std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    return low + below(high - low + 1);
  }
  /// Returns true with the probability `parts_per_million` / 1e6.
  constexpr bool chance(std::uint32_t parts_per_million) { return below(1'000'000) < parts_per_million; }

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace rdmc

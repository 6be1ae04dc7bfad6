// Learns what a group's paths are like from how long messages took. A value of a few numbers; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "dataplane/relay/cost_model.hpp"

namespace rdmc::relay {

/// A short message to take the time of.
struct Probe {
  Algorithm algorithm = Algorithm::chain;
  std::uint32_t members = 2;
  std::uint64_t bytes = 0;
  std::uint32_t block_bytes = 0;
};
/// Their times tell all parameters apart; groups with fewer members leave out what they cannot form.
inline constexpr std::array<Probe, 4> kProbes{{{.members = 2, .bytes = 256 << 10, .block_bytes = 32 << 10},
                                               {.members = 2, .bytes = 4 << 20, .block_bytes = 32 << 10},
                                               {.members = 2, .bytes = 4 << 20, .block_bytes = 256 << 10},
                                               {.members = 4, .bytes = 1 << 20, .block_bytes = 32 << 10}}};

/// Least squares of relative errors over the messages seen, held near a first guess where they say nothing.
class PathFit {
 public:
  explicit PathFit(const PathParameters& guess) : guess_(guess) {}
  /// A message with this critical path took so long. `seconds` > 0.
  void observe(const CriticalPath& path, double seconds);
  void observe(const Probe& probe, double seconds);
  /// Nothing of it is negative. Uplinks and drift are those of the guess.
  PathParameters parameters() const;

 private:
  static constexpr std::size_t kUnknowns = 4;  // seconds per byte, per block, per hop, and once
  using Vector = std::array<double, kUnknowns>;
  using Matrix = std::array<Vector, kUnknowns>;

  static Vector solve(Matrix left, Vector right);

  PathParameters guess_;
  Matrix squares_{};
  Vector products_{};
};

}  // namespace rdmc::relay

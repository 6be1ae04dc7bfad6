// Learns what a group's paths are like from how long messages took. A value of a few numbers; any thread.
#pragma once

#include <array>
#include <cstddef>

#include "dataplane/relay/cost_model.hpp"

namespace rdmc::relay {

/// Least squares of relative errors over the messages seen, held near a first guess where they say nothing.
class PathFit {
 public:
  explicit PathFit(const PathParameters& guess) : guess_(guess) {}
  /// A message with this critical path took so long. `seconds` > 0.
  void observe(const CriticalPath& path, double seconds);
  /// Nothing of it is negative. The uplinks are those of the guess.
  PathParameters parameters() const;

 private:
  static constexpr std::size_t kUnknowns = 3;  // seconds per byte, per block, per hop
  using Vector = std::array<double, kUnknowns>;
  using Matrix = std::array<Vector, kUnknowns>;

  static Vector solve(Matrix left, Vector right);

  PathParameters guess_;
  Matrix squares_{};
  Vector products_{};
};

}  // namespace rdmc::relay

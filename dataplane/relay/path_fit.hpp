// Learns the properties of a group's paths from the times of messages. A plain value that any thread may use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "dataplane/relay/cost_model.hpp"

namespace rdmc::relay {

/// Fits the parameters so that the sum of the squared relative errors over all observed messages is least. If
/// the messages give no information about a parameter, it stays close to a first guess.
class PathFit {
 public:
  explicit PathFit(const PathParameters& guess) : guess_(guess) {}
  /// Reports that a message with this critical path took `seconds`. Precondition: seconds > 0.
  void observe(const CriticalPath& path, double seconds);
  /// The fitted parameters. All values are at least 0. The values for uplinks and drift are those of the
  /// guess.
  PathParameters parameters() const;

 private:
  static constexpr std::size_t kUnknowns = 4;  // the seconds per byte, per block, per hop, and per message
  using Vector = std::array<double, kUnknowns>;
  using Matrix = std::array<Vector, kUnknowns>;

  static Vector solve(Matrix left, Vector right);

  PathParameters guess_;
  Matrix squares_{};
  Vector products_{};
};

}  // namespace rdmc::relay

// Learns the properties of a group's paths from the times of messages. A plain value that any thread may use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "dataplane/relay/cost_model.hpp"

namespace rdmc::relay {

/// A short message whose time is measured.
struct Probe {
  Algorithm algorithm = Algorithm::chain;
  std::uint32_t members = 2;
  std::uint64_t bytes = 0;
  std::uint32_t block_bytes = 0;
};
/// The times of these probes distinguish all parameters. A group does not send the probes that need more
/// members than it has.
inline constexpr std::array<Probe, 4> kProbes{{{.members = 2, .bytes = 256 << 10, .block_bytes = 32 << 10},
                                               {.members = 2, .bytes = 4 << 20, .block_bytes = 32 << 10},
                                               {.members = 2, .bytes = 4 << 20, .block_bytes = 256 << 10},
                                               {.members = 4, .bytes = 1 << 20, .block_bytes = 32 << 10}}};

/// Fits the parameters so that the sum of the squared relative errors over all observed messages is least. If
/// the messages give no information about a parameter, it stays close to a first guess.
class PathFit {
 public:
  explicit PathFit(const PathParameters& guess) : guess_(guess) {}
  /// Reports that a message with this critical path took `seconds`. Precondition: seconds > 0.
  void observe(const CriticalPath& path, double seconds);
  void observe(const Probe& probe, double seconds);
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

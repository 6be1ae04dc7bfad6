#include "dataplane/relay/path_fit.hpp"

#include <algorithm>
#include <cassert>

namespace rdmc::relay {
namespace {

/// A path may change over time. So each new message reduces the weight of all earlier ones by this factor.
constexpr double kMemory = 1 - 1.0 / 64;

}  // namespace

void PathFit::observe(const CriticalPath& path, double seconds) {
  assert(seconds > 0);
  const Vector row{path.bytes / seconds, path.blocks / seconds, path.hops / seconds, 1 / seconds};
  for (std::size_t i = 0; i < kUnknowns; ++i) {
    for (std::size_t j = 0; j < kUnknowns; ++j) squares_[i][j] = kMemory * squares_[i][j] + row[i] * row[j];
    products_[i] = kMemory * products_[i] + row[i];
  }
}

/// Gaussian elimination without pivoting, because the matrix is symmetric and positive definite.
PathFit::Vector PathFit::solve(Matrix left, Vector right) {
  for (std::size_t i = 0; i < kUnknowns; ++i) {
    for (std::size_t j = i + 1; j < kUnknowns; ++j) {
      const double factor = left[j][i] / left[i][i];
      for (std::size_t c = i; c < kUnknowns; ++c) left[j][c] -= factor * left[i][c];
      right[j] -= factor * right[i];
    }
  }
  Vector found{};
  for (std::size_t i = kUnknowns; i-- > 0;) {
    double value = right[i];
    for (std::size_t c = i + 1; c < kUnknowns; ++c) value -= left[i][c] * found[c];
    found[i] = value / left[i][i];
  }
  return found;
}

PathParameters PathFit::parameters() const {
  // The weight of the guess, which is very small compared with that of one message.
  constexpr double kFaith = 1e-8;
  constexpr double kLeastGuess = 1e-12;  // avoids an infinite weight if the guess is 0
  const Vector guess{8 / guess_.bits_per_second, guess_.block_seconds, guess_.hop_seconds,
                     guess_.start_seconds};
  Vector found{};
  // A parameter that becomes negative is set to 0, and the others are fitted again without it.
  std::array<bool, kUnknowns> is_nothing{};
  for (bool again = true; again;) {
    again = false;
    Matrix left = squares_;
    Vector right = products_;
    for (std::size_t i = 0; i < kUnknowns; ++i) {
      const double scale = std::max(guess[i], kLeastGuess);
      const double weight = kFaith / (scale * scale);
      left[i][i] += weight;
      right[i] += weight * guess[i];
    }
    for (std::size_t i = 0; i < kUnknowns; ++i) {
      if (!is_nothing[i]) continue;
      for (std::size_t j = 0; j < kUnknowns; ++j) left[i][j] = left[j][i] = i == j ? 1 : 0;
      right[i] = 0;
    }
    found = solve(left, right);
    for (std::size_t i = 0; i < kUnknowns; ++i)
      if (found[i] < 0) is_nothing[i] = again = true;
  }
  PathParameters fitted = guess_;
  if (found[0] > 0) fitted.bits_per_second = 8 / found[0];
  fitted.block_seconds = found[1];
  fitted.hop_seconds = found[2];
  fitted.start_seconds = found[3];
  return fitted;
}

}  // namespace rdmc::relay

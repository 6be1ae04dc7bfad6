// Turns an input into the steps of a play. All fuzz targets that drive a state machine use it.
#pragma once

#include <memory>

#include "tests/fuzz/input.hpp"

namespace rdmc::fuzz {

/// Runs a play's steps until the end of the input, and then its finish(), if it has one. If the play has
/// several kinds, the first byte selects the kind.
template <typename Play>
int play(const std::uint8_t* data, std::size_t size) {
  Input input({reinterpret_cast<const std::byte*>(data), size});
  const auto played = [&] {
    if constexpr (requires { Play(input.next()); })
      return std::make_unique<Play>(input.next());
    else
      return std::make_unique<Play>();
  }();
  while (!input.empty()) played->step(input);
  if constexpr (requires { played->finish(); }) played->finish();
  return 0;
}

}  // namespace rdmc::fuzz

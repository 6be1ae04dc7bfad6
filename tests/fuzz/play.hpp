// How an input becomes the steps of a play: what all fuzz targets that drive a state machine begin with.
#pragma once

#include <memory>

#include "tests/fuzz/input.hpp"

namespace rdmc::fuzz {

/// Steps to the end of the input, then the play's own end if it has one. A play that comes in several kinds
/// is made of the first byte.
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

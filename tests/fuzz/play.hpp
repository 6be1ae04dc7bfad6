// Turns an input into the steps of a play. Every fuzz target with a state machine uses this.
#pragma once

#include <memory>

#include "tests/fuzz/input.hpp"

namespace rdmc::fuzz {

/// Runs the steps of a play until the end of the input. Then calls the play's finish() if there is one. If
/// there are several kinds of the play, the first byte selects the kind.
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

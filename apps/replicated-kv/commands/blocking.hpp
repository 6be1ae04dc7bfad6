// These functions say how long a command waits. They are pure.
#pragma once

#include <expected>
#include <string_view>

#include "apps/replicated-kv/commands/command.hpp"

namespace rdmc::kv {

/// Returns the longest wait that a command of the kind flag::kWaits names, or the text of an error. 0 means
/// that it waits for ever.
std::expected<Milliseconds, std::string_view> longest_wait(Arguments words);

}  // namespace rdmc::kv

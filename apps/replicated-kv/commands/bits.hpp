// This file has the functions that the commands of bits and of bit fields share.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "apps/replicated-kv/commands/command.hpp"

namespace rdmc::kv {

/// The offset of a bit. "#2" means the third field of `width` bits, if `width` is not 0. Replies with an
/// error if the word is wrong.
std::optional<std::uint64_t> bit_offset(Call& call, std::string_view word, unsigned width = 0);

/// Returns the string, which is made long enough to have the bit. It is new if the key was missing. Returns
/// null, after the error reply, if the key is something else. `has_changed` says whether the string has
/// become longer.
Text* text_with_bit(Call& call, std::string_view key, std::uint64_t offset, bool& has_changed);

}  // namespace rdmc::kv

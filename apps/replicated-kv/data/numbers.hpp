// Integers in words and values, as Redis accepts them. The functions are pure.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rdmc::kv {

/// A number as Redis accepts it: without "+", spaces and leading zeros. Returns nullopt for anything else.
inline std::optional<std::int64_t> to_integer(std::string_view word) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  const std::string_view digits = word.starts_with('-') ? word.substr(1) : word;
  if (digits[0] == '0' && word.size() > 1) return std::nullopt;
  return number;
}

}  // namespace rdmc::kv

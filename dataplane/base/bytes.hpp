// Big-endian loads and stores. Every integer of the RoCE headers and of rdmc's control frames is big endian.
// The caller must guarantee that the memory is large enough; parsers check lengths once, before they load.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rdmc {

template <std::unsigned_integral T>
constexpr T byte_swap(T value) {
  if constexpr (sizeof(T) == 1)
    return value;
  else if constexpr (sizeof(T) == 2)
    return __builtin_bswap16(value);
  else if constexpr (sizeof(T) == 4)
    return __builtin_bswap32(value);
  else
    return __builtin_bswap64(value);
}

template <std::unsigned_integral T>
T load_be(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return std::endian::native == std::endian::little ? byte_swap(value) : value;
}

template <std::unsigned_integral T>
void store_be(std::byte* to, T value) {
  if constexpr (std::endian::native == std::endian::little) value = byte_swap(value);
  std::memcpy(to, &value, sizeof value);
}

inline std::uint32_t load_be24(const std::byte* from) {
  return std::to_integer<std::uint32_t>(from[0]) << 16 | std::to_integer<std::uint32_t>(from[1]) << 8 |
         std::to_integer<std::uint32_t>(from[2]);
}

inline void store_be24(std::byte* to, std::uint32_t value) {
  to[0] = static_cast<std::byte>(value >> 16);
  to[1] = static_cast<std::byte>(value >> 8);
  to[2] = static_cast<std::byte>(value);
}

}  // namespace rdmc

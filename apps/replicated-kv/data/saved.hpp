// Strings of bytes in saved states and in events. The functions are pure.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "dataplane/base/varint.hpp"

namespace rdmc::kv {

inline void put_bytes(std::vector<std::byte>& out, std::string_view bytes) {
  put_varint(out, bytes.size());
  const auto* const data = reinterpret_cast<const std::byte*>(bytes.data());
  out.insert(out.end(), data, data + bytes.size());
}

/// The result is valid as long as the memory of the reader.
inline std::string_view take_text(VarintReader& in) {
  const auto bytes = in.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A real number takes eight bytes, the lowest ones first.
inline void put_real(std::vector<std::byte>& out, double number) {
  std::array<char, sizeof(double)> bytes;
  auto bits = std::bit_cast<std::uint64_t>(number);
  for (char& byte : bytes) {
    byte = static_cast<char>(bits & 0xFF);
    bits >>= 8;
  }
  put_bytes(out, {bytes.data(), bytes.size()});
}

inline double take_real(VarintReader& in) {
  const std::string_view bytes = take_text(in);
  std::uint64_t bits = 0;
  if (bytes.size() != sizeof(double)) in.fail();
  for (std::size_t i = 0; i < bytes.size() && i < sizeof(double); ++i)
    bits |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return std::bit_cast<double>(bits);
}

}  // namespace rdmc::kv

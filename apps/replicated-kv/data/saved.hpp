// Strings of bytes in saved states and in events. The functions are pure.
#pragma once

#include <cstddef>
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

}  // namespace rdmc::kv

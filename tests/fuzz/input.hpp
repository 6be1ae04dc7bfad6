// Common functions of all fuzz targets: reading decisions from the input, and ending the process if a
// property does not hold.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "dataplane/base/error.hpp"

namespace rdmc::fuzz {

/// Not an assert, so that the check runs in every build.
inline void require(bool condition) {
  if (!condition) std::abort();
}

/// True if a parser has rejected its input. It must then give a reason.
template <typename T>
bool refused(const Result<T>& result) {
  require(result.has_value() || !result.error().what.empty());
  return !result.has_value();
}

using Bytes = std::span<const std::byte>;

/// Passes the input without its first byte to one of the readers, which are functions of Bytes. The first
/// byte selects the reader. This is the whole work of such a target's entry function.
template <typename Readers>
int read_by_first_byte(const Readers& readers, const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  readers[data[0] % readers.size()](bytes.subspan(1));
  return 0;
}

/// Reads the fuzzer's bytes as a sequence of decisions. After the end it reads zeros.
class Input {
 public:
  explicit Input(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  std::uint8_t next() { return bytes_.empty() ? 0 : std::to_integer<std::uint8_t>(take(1)[0]); }
  std::uint32_t next32() {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value = value << 8 | next();
    return value;
  }
  std::span<const std::byte> take(std::size_t count) {
    const auto taken = bytes_.first(std::min(count, bytes_.size()));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace rdmc::fuzz

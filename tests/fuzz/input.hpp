// Common functions of all fuzz targets. They read decisions from the input, and end the process if a property
// does not hold.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "dataplane/base/error.hpp"

namespace rdmc::fuzz {

/// Ends the process if `condition` is false. It is no assert, so that the check runs in every build.
inline void require(bool condition) {
  if (!condition) std::abort();
}

/// Returns true if a parser has rejected its input. Checks that the parser has given a reason.
template <typename T>
bool refused(const Result<T>& result) {
  require(result.has_value() || !result.error().what.empty());
  return !result.has_value();
}

using Bytes = std::span<const std::byte>;

/// The complete entry function of a target that consists of readers. The first byte of the input selects one
/// of the readers, which are functions of Bytes. This reader gets the other bytes.
template <typename Readers>
int read_by_first_byte(const Readers& readers, const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  readers[data[0] % readers.size()](bytes.subspan(1));
  return 0;
}

/// Reads the fuzzer's bytes as a sequence of decisions. After the end of the input it returns zeros.
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

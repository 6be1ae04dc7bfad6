// Encodes numbers in as few bytes as they need (LEB128), for the block maps and messages that members send to
// each other. The functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace rdmc {

/// Appends a number in 1 to 10 bytes.
template <typename Number>
void put_varint(std::vector<std::byte>& out, Number number) {
  auto value = static_cast<std::uint64_t>(number);
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<std::byte>(value | 0x80));
  out.push_back(static_cast<std::byte>(value));
}

/// Removes one number from the front of `in`. A number has only one valid encoding: without trailing zero
/// groups, and without bits beyond the 64th. Returns nullopt if the encoding is invalid or incomplete; `in`
/// may be shorter then.
inline std::optional<std::uint64_t> take_varint(std::span<const std::byte>& in) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const auto group = std::to_integer<std::uint64_t>(in.front());
    in = in.subspan(1);
    if (shift == 63 && group > 1) return std::nullopt;
    value |= (group & 0x7F) << shift;
    if (group < 0x80) return group == 0 && shift > 0 ? std::nullopt : std::optional(value);
  }
  return std::nullopt;
}

/// Reads a message of such numbers. After the first error, all results are zero or empty, and is_good()
/// returns false.
class VarintReader {
 public:
  explicit VarintReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  /// Reads a number. A number above `most` is an error.
  template <typename Number = std::uint64_t>
  Number number(std::uint64_t most = UINT64_MAX) {
    const auto value = is_good_ ? take_varint(rest_) : std::nullopt;
    is_good_ = value && *value <= most;
    return static_cast<Number>(is_good_ ? *value : 0);
  }
  /// Reads the number of the elements that follow. Each element takes one byte or more.
  std::uint64_t count(std::uint64_t most = UINT64_MAX) {
    const auto value = number(most);
    is_good_ = is_good_ && value <= rest_.size();
    return is_good_ ? value : 0;
  }
  /// Reads the number of the bytes that follow, and these bytes.
  std::span<const std::byte> bytes() {
    const auto length = count();
    const auto taken = rest_.first(length);
    rest_ = rest_.subspan(length);
    return taken;
  }
  /// The bytes that were not read yet.
  std::span<const std::byte> rest() const { return rest_; }
  /// Marks the message as malformed, as an error of a reading function does.
  void fail() { is_good_ = false; }
  bool is_good() const { return is_good_; }
  /// True if there was no error, and no bytes are left.
  bool is_done() const { return is_good_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool is_good_ = true;
};

}  // namespace rdmc

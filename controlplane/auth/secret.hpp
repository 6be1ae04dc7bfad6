// Bytes that are wiped when they go out of scope. A key then does not stay in freed memory, in a core dump or
// in a swapped page longer than it is used. A Secret can be moved, but not copied.
#pragma once

#include <string.h>

#include <array>
#include <cstddef>
#include <span>

namespace rdmc::control {

template <std::size_t N>
class Secret {
 public:
  Secret() = default;
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;
  Secret(Secret&& other) noexcept : bytes_(other.bytes_) { other.wipe(); }
  Secret& operator=(Secret&& other) noexcept {
    if (this != &other) {
      bytes_ = other.bytes_;
      other.wipe();
    }
    return *this;
  }
  ~Secret() { wipe(); }

  std::span<std::byte, N> bytes() & { return bytes_; }
  std::span<const std::byte, N> bytes() const& { return bytes_; }
  /// Deleted, because a view of a temporary would see the wiped bytes.
  std::span<const std::byte, N> bytes() const&& = delete;
  /// Uses explicit_bzero, because the compiler may remove a memset of an object whose lifetime ends.
  void wipe() noexcept { explicit_bzero(bytes_.data(), N); }

 private:
  std::array<std::byte, N> bytes_{};
};

}  // namespace rdmc::control

// Bytes that are wiped when they go out of scope, so that a key does not stay behind in freed memory, in a
// core dump or in a swapped page longer than it is used. Values; copying is explicit in the type that holds
// one.
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
  /// A view of a temporary would see the wiped bytes.
  std::span<const std::byte, N> bytes() const&& = delete;
  /// explicit_bzero: the compiler may not drop it, as it may a memset before the end of a life.
  void wipe() noexcept { explicit_bzero(bytes_.data(), N); }

 private:
  std::array<std::byte, N> bytes_{};
};

}  // namespace rdmc::control

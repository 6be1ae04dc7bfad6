// Memory that a collective operation needs until it returns. Small amounts are inside the object, so that a
// small operation allocates nothing. The memory is aligned for every element. It is not initialized.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <string>

#include "dataplane/base/error.hpp"

namespace rdmc::replica::collectives {

class Scratch {
 public:
  static constexpr std::size_t kInside = 2048;
  static constexpr std::size_t kAlignment = 64;

  Scratch() {}  // NOLINT(modernize-use-equals-default): `= default` would initialize the memory
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// Returns `bytes` bytes. They belong to this object. May be called once. Errors: resource_limit.
  Result<std::span<std::byte>> reserve(std::size_t bytes) {
    if (bytes <= kInside) return std::span(inside_.data(), bytes);
    outside_.reset(
        static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kAlignment}, std::nothrow)));
    if (!outside_)
      return fail(Errc::resource_limit, "no memory for " + std::to_string(bytes) + " bytes of a collective");
    return std::span(outside_.get(), bytes);
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{kAlignment}); }
  };
  alignas(kAlignment) std::array<std::byte, kInside> inside_;
  std::unique_ptr<std::byte, Free> outside_;
};

}  // namespace rdmc::replica::collectives

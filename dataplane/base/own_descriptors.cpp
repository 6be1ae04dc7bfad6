#include "dataplane/base/own_descriptors.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace rdmc {
namespace {

/// The number of descriptors in the table. Linux allows a process at most this number by default
/// (fs.nr_open). The pages of the table take no memory until they are used. Descriptors with a larger number
/// are not recorded.
constexpr std::size_t kDescriptors = std::size_t{1} << 20, kBits = 64;
std::array<std::atomic<std::uint64_t>, kDescriptors / kBits> own;

}  // namespace

void note_own(int fd) noexcept {
  const auto at = static_cast<std::size_t>(fd);
  if (fd >= 0 && at < kDescriptors)
    own[at / kBits].fetch_or(std::uint64_t{1} << at % kBits, std::memory_order_relaxed);
}

void forget_own(int fd) noexcept {
  const auto at = static_cast<std::size_t>(fd);
  if (fd >= 0 && at < kDescriptors)
    own[at / kBits].fetch_and(~(std::uint64_t{1} << at % kBits), std::memory_order_relaxed);
}

void close_inherited() noexcept {
  for (std::size_t word = 0; word < own.size(); ++word) {
    if (own[word].load(std::memory_order_relaxed) == 0) continue;
    for (auto left = own[word].exchange(0, std::memory_order_relaxed); left != 0; left &= left - 1)
      ::close(static_cast<int>(word * kBits) + std::countr_zero(left));
  }
}

}  // namespace rdmc

// Memory that runs out when a test says so. The header replaces operator new in the whole program: exactly
// one file of a program includes it, and this file has a program of its own. Each thread fails by itself: a
// test lets some allocations of a thread succeed, and then so many fail. Nothing fails on a thread that was
// not told to.
#pragma once

#include <cstdlib>
#include <limits>
#include <new>
#include <utility>

namespace rdmc::testing {

/// For fail_allocations(): until end_failures().
inline constexpr long kAllOfThem = std::numeric_limits<long>::max();

struct AllocationFailures {
  long spared = 0;  ///< so many allocations succeed first
  long left = 0;    ///< and then so many fail
  long failed = 0;  ///< so many have failed
};

/// Of the calling thread.
inline AllocationFailures& allocation_failures() {
  static thread_local AllocationFailures failures;
  return failures;
}

/// On the calling thread `spared` allocations succeed from now on, the next `count` fail, and all others
/// succeed.
inline void fail_allocations(long spared, long count = kAllOfThem) {
  allocation_failures() = {.spared = spared, .left = count};
}

/// All allocations of the calling thread succeed again; returns how many have failed.
inline long end_failures() {
  return std::exchange(allocation_failures(), {}).failed;
}

/// While it lives, the calling thread has memory: what a test itself notes in an upcall neither fails nor
/// counts.
class MemoryOfTest {
 public:
  MemoryOfTest() : kept_(std::exchange(allocation_failures(), {})) {}
  ~MemoryOfTest() { allocation_failures() = kept_; }
  MemoryOfTest(const MemoryOfTest&) = delete;
  MemoryOfTest& operator=(const MemoryOfTest&) = delete;

 private:
  AllocationFailures kept_;
};

inline bool may_allocate() {
  AllocationFailures& failures = allocation_failures();
  if (failures.left == 0) return true;
  if (failures.spared > 0) return --failures.spared, true;
  --failures.left;
  ++failures.failed;
  return false;
}

}  // namespace rdmc::testing

[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* memory = rdmc::testing::may_allocate() ? std::malloc(size) : nullptr) return memory;
  throw std::bad_alloc();
}
// The address sanitizer has one of its own, whose memory our operator delete must not release.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return rdmc::testing::may_allocate() ? std::malloc(size) : nullptr;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

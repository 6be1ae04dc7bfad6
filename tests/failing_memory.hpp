// Makes memory allocations fail when a test requests this. The header replaces operator new in the whole
// program. Exactly one file of a program may include this header, and this file must have a program of its
// own. Each thread has its own failures: a test requests for a thread how many allocations first succeed, and
// how many then fail. On all other threads, no allocation fails.
#pragma once

#include <cstdlib>
#include <limits>
#include <new>
#include <utility>

namespace rdmc::testing {

/// A value of `count` for fail_allocations(): all allocations fail until end_failures() is called.
inline constexpr long kAllOfThem = std::numeric_limits<long>::max();

struct AllocationFailures {
  long spared = 0;  ///< the number of allocations that succeed first
  long left = 0;    ///< the number of allocations that fail after these
  long failed = 0;  ///< the number of allocations that have failed
};

/// Returns the failures of the calling thread.
inline AllocationFailures& allocation_failures() {
  static thread_local AllocationFailures failures;
  return failures;
}

/// From now on, the next `spared` allocations of the calling thread succeed, the `count` allocations after
/// them fail, and all later ones succeed.
inline void fail_allocations(long spared, long count = kAllOfThem) {
  allocation_failures() = {.spared = spared, .left = count};
}

/// Makes all later allocations of the calling thread succeed. Returns how many allocations have failed.
inline long end_failures() {
  return std::exchange(allocation_failures(), {}).failed;
}

/// While an object of this class exists, the allocations of the calling thread succeed and are not counted. A
/// test uses this class if it allocates memory in an upcall.
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
// The sanitizer's own version of this function would return memory that the `operator delete` below must not
// free.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return rdmc::testing::may_allocate() ? std::malloc(size) : nullptr;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

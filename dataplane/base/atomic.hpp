// The atomic variables of code in which threads, or processes, work on the same memory without a lock. Such
// code uses Atomic and full_fence(). The tests in tests/model run it in all interleavings. They define
// RDMC_MODEL_CHECK as the name of a header that has other definitions of Atomic and full_fence().
#pragma once

#ifdef RDMC_MODEL_CHECK
#include RDMC_MODEL_CHECK
#else

#include <atomic>

namespace rdmc {

template <typename T>
using Atomic = std::atomic<T>;

/// Every access of this thread before the fence takes effect before every access after it, and all threads
/// see the fences in one common order.
inline void full_fence() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace rdmc

#endif

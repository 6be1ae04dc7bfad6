// Sleeping on a word of memory, and waking those who sleep on it: the kernel's futex(2).
#pragma once

#include <cstdint>

#include "dataplane/base/atomic.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc {

/// The threads that use a word: those of one process, or those of several processes that have mapped its
/// memory.
enum class FutexUsers : std::uint8_t { one_process, several_processes };

/// Sleeps if `word` has the value `value`, until a wake-up, a signal, or the deadline (monotonic_now()).
/// Returns 0 after a wake-up, EAGAIN if the word has another value, EINTR after a signal, and ETIMEDOUT after
/// the deadline. A thread may also be woken for no reason. Without a deadline, the kernel continues the sleep
/// after a signal whose handler allows it (SA_RESTART). With a deadline, it never does. The kernel's own
/// sockets behave in the same way.
int futex_wait(Atomic<std::uint32_t>& word, std::uint32_t value, Time deadline, FutexUsers users);

/// Wakes at most `most` threads that sleep on the word.
void futex_wake(Atomic<std::uint32_t>& word, int most, FutexUsers users) noexcept;

}  // namespace rdmc

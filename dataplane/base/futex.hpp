// Functions to sleep on a word of memory, and to wake the threads that sleep on it: the kernel's futex(2).
#pragma once

#include <cstdint>

#include "dataplane/base/atomic.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc {

/// The threads that use a word belong to one process, or to several processes that have mapped the memory of
/// the word.
enum class FutexUsers : std::uint8_t { one_process, several_processes };

/// Sleeps if `word` has the value `value`, until a wake-up, a signal, or the deadline (monotonic_now()).
/// Returns 0 after a wake-up, EAGAIN if the word has another value, EINTR after a signal, and ETIMEDOUT after
/// the deadline. A thread may also be woken for no reason. If there is no deadline, the kernel continues the
/// sleep after a signal whose handler was installed with SA_RESTART. If there is a deadline, every signal
/// that runs a handler ends the sleep. System calls on the kernel's sockets treat signals in the same way.
int futex_wait(Atomic<std::uint32_t>& word, std::uint32_t value, Time deadline, FutexUsers users);

/// Wakes at most `most` threads that sleep on the word.
void futex_wake(Atomic<std::uint32_t>& word, int most, FutexUsers users) noexcept;

}  // namespace rdmc

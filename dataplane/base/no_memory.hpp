// Functions for the library's own threads when memory runs out. A std::bad_alloc that leaves a thread ends
// the process. So these functions turn it into an error for the owner of the work, and the thread goes on.
#pragma once

#include <chrono>
#include <concepts>
#include <new>
#include <thread>
#include <type_traits>

#include "dataplane/base/error.hpp"

namespace rdmc {

template <typename T>
concept IsResult = requires {
  typename T::error_type;
}
&&std::same_as<typename T::error_type, Error>;

/// The error resource_limit. Its text is so short that it needs no allocation.
inline Error no_memory() {
  return {Errc::resource_limit, "no memory"};
}

/// Copies an error for everything that must receive it. Without memory for the text, the copy has the same
/// code and the text of no_memory().
inline Error copy_of(const Error& error) noexcept {
  try {
    return error;
  } catch (const std::bad_alloc&) {
    return {error.code, no_memory().what};
  }
}

/// Returns the result of `work`, or no_memory() if `work` throws std::bad_alloc.
template <typename Work>
requires IsResult<std::invoke_result_t<Work>> std::invoke_result_t<Work> or_no_memory(Work&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return std::unexpected(no_memory());
  }
}

/// Runs `work` again and again until it does not throw std::bad_alloc. It is only for a thread that is
/// allowed to block, and for which another thread waits. `work` must have changed nothing when it throws.
template <typename Work>
void when_there_is_memory(Work&& work) {
  for (;;) {
    try {
      work();
      return;
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
}

}  // namespace rdmc

// What a thread of the library's own does when memory runs out. A std::bad_alloc that leaves a thread ends
// the process; so it becomes a named error for whoever owns the work, and the thread goes on.
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

/// resource_limit. The text is short enough to need no memory itself.
inline Error no_memory() {
  return {Errc::resource_limit, "no memory"};
}

/// A copy for whoever must be told; without memory for the text, the same code with the text of no_memory().
inline Error copy_of(const Error& error) noexcept {
  try {
    return error;
  } catch (const std::bad_alloc&) {
    return {error.code, no_memory().what};
  }
}

/// The result of `work`; no_memory() if it met std::bad_alloc.
template <typename Work>
requires IsResult<std::invoke_result_t<Work>> std::invoke_result_t<Work> or_no_memory(Work&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return std::unexpected(no_memory());
  }
}

/// Runs `work` again and again until it does not meet std::bad_alloc. For a thread that may wait and that
/// somebody waits for; `work` must have changed nothing when it throws.
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

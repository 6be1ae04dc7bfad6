// Functions for the library's own threads when memory runs out. If a thread does not catch a std::bad_alloc,
// the process ends. So these functions turn the exception into an error for the owner of the work, and the
// thread continues.
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

/// Copies an error, so that each of its receivers gets a copy. If there is no memory for the text, the copy
/// has the same code and the text of no_memory().
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

/// Runs `work` again and again until it does not throw std::bad_alloc. Only a thread that is allowed to
/// block, and for which another thread waits, may call this function. `work` must have changed nothing when
/// it throws.
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

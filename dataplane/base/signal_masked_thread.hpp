// Starts a thread of the library. The program did not ask for this thread, and its signal handlers must not
// run there, so all signals are blocked in the thread.
#pragma once

#include <signal.h>

#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "dataplane/base/error.hpp"

namespace rdmc {

/// Starts the thread. `what` is the purpose of the thread, which the error message contains: "no thread
/// WHAT". Errors: resource_limit.
template <typename Function>
Result<std::thread> start_signal_masked_thread(const char* what, Function function) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<std::thread> thread;
  try {
    thread = std::thread(std::move(function));
  } catch (const std::system_error& error) {
    thread = fail(Errc::resource_limit, std::string("no thread ") + what + ": " + error.what());
  } catch (const std::bad_alloc&) {
    thread = fail(Errc::resource_limit, "no memory");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace rdmc

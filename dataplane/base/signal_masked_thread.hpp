// Starts a thread of the library's own: one that the program did not ask for and that must not run its signal
// handlers.
#pragma once

#include <signal.h>

#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "dataplane/base/error.hpp"

namespace rdmc {

/// `what` it does, for people. Errors: resource_limit.
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

// Makes a call in a separate thread, in which it waits for a socket. The test continues when the kernel
// reports that the thread sleeps in this call. So the test does not depend on which thread is faster.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <fstream>
#include <functional>
#include <future>
#include <string>
#include <thread>

#include "lib/socket/stream.hpp"

namespace rdmc::sockets::testing {

/// Returns true if the thread sleeps for its socket. It then sleeps in poll(), or on a futex word as
/// OpenSocket does. A thread that waits for a mutex uses another futex operation.
inline bool sleeps_for_a_socket(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/syscall");
  long number = -1;
  std::string word, operation;
  if (!(file >> number)) return false;
  if (number == SYS_ppoll) return true;
  constexpr unsigned long kWaitBitset = 9, kPrivate = 128;
  return number == SYS_futex && file >> word >> operation &&
         (std::stoul(operation, nullptr, 16) & ~kPrivate) == kWaitBitset;
}

/// Makes a call in a separate thread. When the constructor returns, the call sleeps.
class Waiting {
 public:
  explicit Waiting(std::function<Answer()> call) {
    std::promise<pid_t> id;
    auto known = id.get_future();
    answer_ = std::async(std::launch::async, [call = std::move(call), id = std::move(id)]() mutable {
      id.set_value(static_cast<pid_t>(::syscall(SYS_gettid)));
      return call();
    });
    const pid_t thread = known.get();
    while (!sleeps_for_a_socket(thread) && !has_ended()) std::this_thread::yield();
    BOOST_REQUIRE(!has_ended());
  }
  Answer answer() { return answer_.get(); }

 private:
  bool has_ended() const { return answer_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }

  std::future<Answer> answer_;
};

}  // namespace rdmc::sockets::testing

#include "dataplane/base/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace rdmc {
namespace {

int flags_for(FutexUsers users) {
  return users == FutexUsers::one_process ? FUTEX_PRIVATE_FLAG : 0;
}

}  // namespace

int futex_wait(Atomic<std::uint32_t>& word, std::uint32_t value, Time deadline, FutexUsers users) {
  const timespec until{.tv_sec = deadline.ns / 1'000'000'000, .tv_nsec = deadline.ns % 1'000'000'000};
  const auto slept = syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | flags_for(users), value,
                             deadline == Time::never() ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY);
  return slept == 0 ? 0 : errno;
}

void futex_wake(Atomic<std::uint32_t>& word, int most, FutexUsers users) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE | flags_for(users), most, nullptr, nullptr, 0);
}

}  // namespace rdmc

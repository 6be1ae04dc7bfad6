#include "dataplane/fabric/shm/doorbell.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace rdmc::fabric::shm {

Result<Doorbell> Doorbell::make() {
  auto pages = memory::SharedPages::make(kBytes, memory::SharedPages::Peers::may_write, memory::Touch::now);
  if (!pages) return std::unexpected(pages.error());
  return Doorbell(std::move(*pages));
}

Result<Doorbell> Doorbell::attach(Descriptor descriptor) {
  auto pages =
      memory::SharedPages::attach(std::move(descriptor), kBytes, memory::SharedPages::Peers::may_write);
  if (!pages) return std::unexpected(pages.error());
  return Doorbell(std::move(*pages));
}

void Doorbell::sleep(Time deadline, Time now) {
  const Duration longest = std::min(std::max(deadline - now, Duration{}), kLongestSleep);
  const timespec patience{.tv_sec = longest.ns / 1'000'000'000, .tv_nsec = longest.ns % 1'000'000'000};
  // The return value is not needed. The caller checks for work in any case: after a wake-up, a changed word,
  // a timeout or a signal.
  syscall(SYS_futex, &word(), FUTEX_WAIT, static_cast<std::uint32_t>(Sleep::on_futex), &patience, nullptr, 0);
}

void Doorbell::wake() noexcept {
  word().store(0, std::memory_order_seq_cst);
  syscall(SYS_futex, &word(), FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

Sleep Doorbell::ring() noexcept {
  if (!is_asleep()) return Sleep::awake;
  const auto how = static_cast<Sleep>(word().exchange(0, std::memory_order_seq_cst));
  if (how == Sleep::on_futex) syscall(SYS_futex, &word(), FUTEX_WAKE, 1, nullptr, nullptr, 0);
  return how;
}

}  // namespace rdmc::fabric::shm

#include "dataplane/fabric/shm/doorbell.hpp"

#include <algorithm>

#include "dataplane/base/futex.hpp"

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
  // The return value is not needed. The caller checks for work in any case: after a wake-up, a changed word,
  // a timeout or a signal.
  (void)futex_wait(word(), static_cast<std::uint32_t>(Sleep::on_futex),
                   std::min(deadline, now + kLongestSleep), FutexUsers::several_processes);
}

void Doorbell::wake() noexcept {
  word().store(0, std::memory_order_seq_cst);
  futex_wake(word(), 1, FutexUsers::several_processes);
}

Sleep Doorbell::ring() noexcept {
  if (!is_asleep()) return Sleep::awake;
  const auto how = static_cast<Sleep>(word().exchange(0, std::memory_order_seq_cst));
  if (how == Sleep::on_futex) futex_wake(word(), 1, FutexUsers::several_processes);
  return how;
}

}  // namespace rdmc::fabric::shm

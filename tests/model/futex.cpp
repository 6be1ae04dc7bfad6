#include "dataplane/base/futex.hpp"

namespace rdmc {

int futex_wait(Atomic<std::uint32_t>& word, std::uint32_t value, Time, FutexUsers) {
  model::Machine::wait(&word, &value, sizeof value);
  return 0;
}

void futex_wake(Atomic<std::uint32_t>& word, int most, FutexUsers) noexcept {
  model::Machine::wake(&word, static_cast<std::size_t>(most));
}

}  // namespace rdmc

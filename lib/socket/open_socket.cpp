#include "lib/socket/open_socket.hpp"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/futex.hpp"

namespace rdmc::sockets {

static_assert(kReadable == (POLLIN | POLLRDNORM) && kWritable == (POLLOUT | POLLWRNORM));
static_assert(kPeerEnded == POLLRDHUP && kHungUp == POLLHUP && kFailed == POLLERR);

namespace {

/// Sleeps as futex_wait() does.
Woken sleep_on(Atomic<std::uint32_t>& word, std::uint32_t value, Time deadline, FutexUsers users) {
  const int end = futex_wait(word, value, deadline, users);
  if (end == ETIMEDOUT) return Woken::timed_out;
  return end == EINTR ? Woken::interrupted : Woken::changed;
}

}  // namespace

void OpenSocket::on_change(bool data) {
  changes.fetch_add(1);
  if (sleepers_.load() != 0) futex_wake(changes, INT32_MAX, FutexUsers::one_process);
  for (auto* const bell : bells_) {
    // Wakes the calls that sleep on a lane's bell. This is needed because a peer may have cleared the word
    // and died before it woke them.
    bell->store(0);
    wake_sleepers(*bell);
  }
  refresh(data);
}

void OpenSocket::refresh(bool pulse) {
  if (!pollable) return;
  socket.stream()->want_records();
  int events = socket.events();
  // A hang-up cannot be revoked, but a socket that was never connected may still connect.
  if (!socket.stream()->has_been_open()) events &= ~(POLLHUP | POLLRDHUP);
  pollable->show(static_cast<short>(events), pulse);
}

void OpenSocket::show_full() {
  if (!pollable) return;
  pollable->show_not_writable();
  refresh();
}

Woken OpenSocket::sleep(std::uint32_t seen, Time deadline) {
  sleepers_.fetch_add(1);
  const Woken woken = sleep_on(changes, seen, deadline, FutexUsers::one_process);
  sleepers_.fetch_sub(1);
  return woken;
}

std::optional<LaneWait> OpenSocket::lane(Wants wants) const {
  const Stream& stream = *socket.stream();
  if (wants == Wants::bytes && stream.incoming() != nullptr)
    return LaneWait(stream.incoming()->memory(), wants);
  if (wants == Wants::room && stream.outgoing() != nullptr)
    return LaneWait(stream.outgoing()->writer.memory(), wants);
  return std::nullopt;
}

bool OpenSocket::look(const LaneWait& lane, std::uint32_t seen, Time until) {
  const Time began = monotonic_now();
  for (;;) {
    for (int looks = 0; looks < 16; ++looks) {
      if (lane.has_news() || changes.load(std::memory_order_relaxed) != seen) return true;
      __builtin_ia32_pause();
    }
    const Time now = monotonic_now();
    if (now >= until) return false;
    if (!core_offer_.is_due((now - began).ns)) continue;
    sched_yield();
    core_offer_.offered(monotonic_now() - now);
  }
}

Woken OpenSocket::sleep(std::unique_lock<FairMutex>& lock, const LaneWait& lane, Time deadline) {
  auto* const word = &lane.word();
  bells_.push_back(word);
  lock.unlock();
  const Woken woken = sleep_on(*word, 1, deadline, FutexUsers::several_processes);
  lock.lock();
  bells_.erase(std::ranges::find(bells_, word));
  return woken;
}

}  // namespace rdmc::sockets

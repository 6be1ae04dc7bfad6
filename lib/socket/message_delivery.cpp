#include "lib/socket/message_delivery.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "dataplane/base/clock.hpp"
#include "dataplane/memory/page_hand_off.hpp"

namespace rdmc::sockets {
namespace {

/// Waits until `message` has no other owner. Returns false if it still has one after `patience`.
bool becomes_only_owner(const Endpoint::Message& message, Duration patience) {
  const Time deadline = monotonic_now() + patience;
  while (message.owner.use_count() != 1) {
    if (monotonic_now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  std::atomic_thread_fence(std::memory_order_acquire);  // The other owners have read the bytes by now.
  return true;
}

/// Returns the bytes of `message` that `out` has space for.
std::span<std::byte> wanted(const Endpoint::Message& message, std::span<std::byte> out) {
  return message.bytes.first(std::min(message.bytes.size(), out.size()));
}

}  // namespace

Duration copy_time(std::size_t bytes) {
  return nanoseconds(100) * static_cast<std::int64_t>(bytes >> 10);
}

std::size_t deliver(Endpoint::Message message, std::span<std::byte> out) {
  const auto bytes = wanted(message, out);
  std::ranges::copy(bytes, out.begin());
  return bytes.size();
}

std::size_t deliver(Endpoint::Message message, std::span<std::byte> out, const ByPages& by_pages) {
  const auto bytes = wanted(message, out), to = out.first(bytes.size());
  if (!memory::moves_pages(bytes, to, by_pages.least_bytes) ||
      !becomes_only_owner(message, by_pages.patience))
    return deliver(std::move(message), out);
  return memory::hand_off(bytes, to, by_pages.least_bytes);
}

}  // namespace rdmc::sockets

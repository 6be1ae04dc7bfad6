#include "lib/socket/message_delivery.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "dataplane/base/clock.hpp"

namespace rdmc::sockets {
namespace {

/// A copy of one KB takes about this time.
constexpr Duration kCopyOfKilobyte = nanoseconds(150);

/// Waits until `message` has no other owner, but at most as long as a copy takes. Returns false if it still
/// has one.
bool becomes_only_owner(const Endpoint::Message& message) {
  const Time deadline =
      monotonic_now() + kCopyOfKilobyte * static_cast<std::int64_t>(message.bytes.size() >> 10);
  while (message.owner.use_count() != 1) {
    if (monotonic_now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  std::atomic_thread_fence(std::memory_order_acquire);  // The other owners have read the bytes by now.
  return true;
}

}  // namespace

std::size_t deliver(Endpoint::Message message, std::span<std::byte> out,
                    const memory::PageExchange* exchange) {
  const auto bytes = message.bytes.first(std::min(message.bytes.size(), out.size()));
  const auto to = out.first(bytes.size());
  if (exchange != nullptr && exchange->gains(bytes, to) && becomes_only_owner(message))
    return exchange->hand_off(bytes, to);
  std::ranges::copy(bytes, to.begin());
  return bytes.size();
}

}  // namespace rdmc::sockets

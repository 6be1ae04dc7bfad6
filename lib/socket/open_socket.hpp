// A socket as a process holds it: the pure Socket, its descriptor - a TCP socket of the kernel's that never
// connects, so that numbers, limits and ports are the kernel's own -, its options, and whoever sleeps on it.
// All but the counter is guarded by the sockets' lock.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "controlplane/connect/listener.hpp"
#include "dataplane/base/address.hpp"
#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/types.hpp"
#include "lib/socket/pollable.hpp"
#include "lib/socket/socket.hpp"

namespace rdmc::sockets {

enum class Woken { changed, timed_out, interrupted };

class OpenSocket final : public Watcher {
 public:
  OpenSocket(Descriptor kernel, bool is_ipv6, Socket of) : ipv6(is_ipv6), socket(std::move(of)) {
    descriptor = kernel.get();
    owned = std::move(kernel);
    socket.watch(this);
  }
  ~OpenSocket() override { socket.watch(nullptr); }

  void on_change(bool data) override;
  /// Shows waiters what there is to show; `pulse`: anew.
  void refresh(bool pulse = false);
  /// The kernel's TCP socket, which `descriptor` is no more once it can be polled.
  int kernel() const { return tcp ? tcp.get() : descriptor; }

  /// Sleeps until the counter is no longer `seen`. Without the lock; the counter is read with it.
  Woken sleep(std::uint32_t seen, Time deadline);

  int descriptor = -1;  ///< what the application calls it
  Descriptor owned;     ///< the same
  Descriptor tcp;
  std::unique_ptr<Pollable> pollable;
  bool ipv6 = false;
  Socket socket;
  bool is_bound = false, port_was_named = false;
  bool has_tried = false;  ///< to connect, since it was bound
  bool non_blocking = false, is_closed = false;
  std::optional<int> linger_seconds;
  Duration receive_timeout{}, send_timeout{};  ///< 0: none
  Address local, peer;                         ///< of a connection
  bool dial_was_cached = false;                ///< it went to whom we knew at that address
  std::optional<control::Listener> listener;   ///< destroyed without the lock: it waits for the loop's thread
  std::atomic<std::uint32_t> changes = 0;

 private:
  std::atomic<std::uint32_t> sleepers_ = 0;
};

}  // namespace rdmc::sockets

// A socket in a process: the core Socket, its descriptor, its options, and the calls that sleep until it
// changes. The descriptor is a kernel TCP socket that never connects. Through it, the kernel manages
// descriptor numbers, limits and port numbers. Everything except the atomic members is guarded by the
// sockets' lock.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "controlplane/connect/listener.hpp"
#include "dataplane/base/address.hpp"
#include "dataplane/base/atomic.hpp"
#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/engine/core_offer.hpp"
#include "dataplane/engine/idle.hpp"
#include "lib/socket/fair_mutex.hpp"
#include "lib/socket/group_session.hpp"
#include "lib/socket/lane_wait.hpp"
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
  /// Updates the pollable descriptor to the current events. With `pulse`, edge-triggered waiters are notified
  /// again.
  void refresh(bool pulse = false);
  /// Must be called when a send found no space. Shows that the socket is not writable until there is space
  /// again, so that edge-triggered waiters then get a new edge.
  void show_full();
  /// Returns the kernel's TCP socket. After pollfd_of(), `descriptor` is a Pollable, and the TCP socket is
  /// `tcp`.
  int kernel() const { return tcp ? tcp.get() : descriptor; }

  /// Sleeps until the counter `changes` differs from `seen`, or until the deadline. Must be called without
  /// the lock. The caller must have read the counter with the lock.
  Woken sleep(std::uint32_t seen, Time deadline);
  /// Returns the lane that a call with these `wants` depends on, or nullopt if the call depends on frames
  /// only.
  std::optional<LaneWait> lane(Wants wants) const;
  /// Spins until the lane has changed, the counter differs from `seen`, or the time `until` has come. Must be
  /// called without the lock. Returns false if nothing has changed.
  bool look(const LaneWait& lane, std::uint32_t seen, Time until);
  /// Sleeps until the peer rings the lane's bell, on_change() is called, or the deadline has come. The caller
  /// must have set the bell's word before its last attempt.
  Woken sleep(std::unique_lock<FairMutex>& lock, const LaneWait& lane, Time deadline);
  /// Returns the object that decides from earlier waiting times whether a call should spin before it sleeps.
  /// Must be called with the lock.
  engine::Idle& idle(Wants wants) { return idle_[wants == Wants::bytes ? 0 : 1]; }

  int descriptor = -1;  ///< the descriptor number that the application uses
  Descriptor owned;     ///< owns `descriptor`
  Descriptor tcp;
  std::unique_ptr<Pollable> pollable;
  bool ipv6 = false;
  Socket socket;
  bool is_bound = false, port_was_named = false;
  bool has_tried = false;  ///< true if connect() was tried since the socket was bound
  bool non_blocking = false;
  /// True if the socket is being closed. New calls do not find this socket any more, and calls that have
  /// found it end.
  bool is_closing = false;
  std::optional<int> linger_seconds;
  Duration receive_timeout{}, send_timeout{};  ///< 0 means no timeout
  std::shared_ptr<GroupEnd> group;             ///< null if this is not a group socket
  /// Set when the group begins. The session must be stopped without the lock.
  std::shared_ptr<GroupSession> session;
  std::string group_name;
  Address local, peer;  ///< the two ends of the connection
  /// True if the last connect() used the process that `known_` of the Stack names for this address.
  bool dial_was_cached = false;
  /// Must be destroyed without the lock, because the destructor waits for the control loop.
  std::optional<control::Listener> listener;
  Atomic<std::uint32_t> changes = 0;

 private:
  Atomic<std::uint32_t> sleepers_ = 0;
  // Its unit is nanoseconds. A peer on another core has usually answered within 5 us. So a call that spins
  // usually offers its core only after this time.
  engine::CoreOffer core_offer_{microseconds(5).ns};
  // The bell words that calls sleep on. Guarded by the lock.
  std::vector<Atomic<std::uint32_t>*> bells_;
  std::array<engine::Idle, 2> idle_{engine::Idle({}), engine::Idle({})};
};

}  // namespace rdmc::sockets

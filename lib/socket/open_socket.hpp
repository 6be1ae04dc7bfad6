// A socket as a process holds it: the pure Socket, its descriptor - a TCP socket of the kernel's that never
// connects, so that numbers, limits and ports are the kernel's own -, its options, and whoever sleeps on it.
// All but the counter is guarded by the sockets' lock.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "controlplane/connect/listener.hpp"
#include "dataplane/base/address.hpp"
#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/engine/idle.hpp"
#include "lib/socket/fair_mutex.hpp"
#include "lib/socket/group_session.hpp"
#include "lib/socket/pollable.hpp"
#include "lib/socket/socket.hpp"

namespace rdmc::sockets {

enum class Woken { changed, timed_out, interrupted };

/// What a call waits for, beside any change of its socket: what the peer does in a lane.
enum class Wants : std::uint8_t { change, bytes, room };

/// One call's waiting: looks for a while at what the peer does in a lane, then sleeps.
class LaneWait {
 public:
  LaneWait(LaneMemory memory, Wants wants) : memory_(std::move(memory)), wants_(wants) {}
  bool has_news() const {
    return wants_ == Wants::bytes ? LaneReader::has_bytes(memory_) : LaneWriter::has_room(memory_);
  }
  std::atomic<std::uint32_t>& word() const {
    return (wants_ == Wants::bytes ? memory_.head->reader : memory_.head->writer).asleep;
  }

 private:
  LaneMemory memory_;
  Wants wants_;
};

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
  /// Had no room for a send: there is none until waiters are told anew, also edge-triggered ones.
  void show_full();
  /// The kernel's TCP socket, which `descriptor` is no more once it can be polled.
  int kernel() const { return tcp ? tcp.get() : descriptor; }

  /// Sleeps until the counter is no longer `seen`. Without the lock; the counter is read with it.
  Woken sleep(std::uint32_t seen, Time deadline);
  /// The lane that a call which `wants` something depends on; nothing: what comes, comes in frames.
  std::optional<LaneWait> lane(Wants wants) const;
  /// Without the lock: looks until there is news, the counter is no longer `seen`, or `until`. Whether there
  /// was any.
  bool look(const LaneWait& lane, std::uint32_t seen, Time until);
  /// Sleeps until the peer rings the lane's bell, which was set before the last attempt, or on_change().
  Woken sleep(std::unique_lock<FairMutex>& lock, const LaneWait& lane, Time deadline);
  /// Whether looking is worth it, by how long it has taken until now. With the lock.
  engine::Idle& idle(Wants wants) { return idle_[wants == Wants::bytes ? 0 : 1]; }

  int descriptor = -1;  ///< what the application calls it
  Descriptor owned;     ///< the same
  Descriptor tcp;
  std::unique_ptr<Pollable> pollable;
  bool ipv6 = false;
  Socket socket;
  bool is_bound = false, port_was_named = false;
  bool has_tried = false;  ///< to connect, since it was bound
  bool non_blocking = false;
  bool is_closing = false;  ///< no call finds it any more, and calls that had found it end
  std::optional<int> linger_seconds;
  Duration receive_timeout{}, send_timeout{};  ///< 0: none
  std::shared_ptr<GroupEnd> group;             ///< null: it is no group socket
  std::shared_ptr<GroupSession> session;       ///< once it is begun; stopped without the lock
  std::string group_name;
  Address local, peer;                        ///< of a connection
  bool dial_was_cached = false;               ///< it went to whom we knew at that address
  std::optional<control::Listener> listener;  ///< destroyed without the lock: it waits for the loop's thread
  std::atomic<std::uint32_t> changes = 0;

 private:
  std::atomic<std::uint32_t> sleepers_ = 0;
  std::atomic<bool> shares_core_ = false;           // with whom it waits for
  std::vector<std::atomic<std::uint32_t>*> bells_;  // that somebody sleeps on; with the lock
  std::array<engine::Idle, 2> idle_{engine::Idle({}), engine::Idle({})};
};

}  // namespace rdmc::sockets

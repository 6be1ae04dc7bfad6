// Prevents a burst on a memif at the moment when the connection of the memif ends. When the other end
// disappears, DPDK's interrupt thread (22.11) unmaps the rings that both ends shared. The interrupt thread
// does not check whether another thread is in the middle of a burst on these rings; such a burst crashes the
// process. DPDK announces the unmapping only in its log. This process receives the log, so the log function
// blocks until every burst on a memif has ended. Bursts that other threads begin during this time find the
// gate closed and transfer nothing.
#pragma once

#include <atomic>
#include <string_view>

namespace rdmc::port::dpdk {

/// The gate of one memif port. The port owns it. One thread at a time enters it.
class MemifGate {
 public:
  MemifGate();
  ~MemifGate();
  MemifGate(const MemifGate&) = delete;
  MemifGate& operator=(const MemifGate&) = delete;

  /// Returns true if a burst may begin. The burst must then end with leave().
  bool enter() noexcept {
    busy_.store(true);
    if (!closed_.load()) return true;
    leave();
    return false;
  }
  void leave() noexcept { busy_.store(false, std::memory_order_release); }

  /// Called with each line of the memif driver's log, on the thread that wrote the line.
  static void on_log(std::string_view line);

 private:
  static std::atomic<bool> closed_;
  static void close();

  std::atomic<bool> busy_ = false;
};

/// A scope guard for one burst: the constructor enters the gate, and the destructor leaves it. `gate` is null
/// if the port has no gate.
class MemifPass {
 public:
  explicit MemifPass(MemifGate* gate) noexcept : gate_(gate), open_(gate == nullptr || gate->enter()) {}
  ~MemifPass() {
    if (gate_ != nullptr && open_) gate_->leave();
  }
  MemifPass(const MemifPass&) = delete;
  MemifPass& operator=(const MemifPass&) = delete;
  explicit operator bool() const noexcept { return open_; }

 private:
  MemifGate* gate_;
  bool open_;
};

}  // namespace rdmc::port::dpdk

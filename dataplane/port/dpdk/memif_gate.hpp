// Keeps bursts on a memif apart from the end of its connection. When the other end goes, DPDK's interrupt
// thread unmaps the rings that the two shared, without asking whether somebody is in the middle of a burst
// there (22.11), and the process dies. What it is about to do it says in its log and nowhere else; the log is
// ours, so there it is held up until every burst on a memif has ended. Bursts on other threads, which find
// the gate closed meanwhile, move nothing.
#pragma once

#include <atomic>
#include <string_view>

namespace rdmc::port::dpdk {

/// A memif port's way through the gate: one thread at a time. Owned by the port.
class MemifGate {
 public:
  MemifGate();
  ~MemifGate();
  MemifGate(const MemifGate&) = delete;
  MemifGate& operator=(const MemifGate&) = delete;

  /// True: a burst may begin, and ends with leave().
  bool enter() noexcept {
    busy_.store(true);
    if (!closed_.load()) return true;
    leave();
    return false;
  }
  void leave() noexcept { busy_.store(false, std::memory_order_release); }

  /// A line of the memif driver's log, on the thread that wrote it.
  static void on_log(std::string_view line);

 private:
  static std::atomic<bool> closed_;
  static void close();

  std::atomic<bool> busy_ = false;
};

/// A burst, from before to after; `gate` is null where there is no gate.
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

#include "dataplane/port/dpdk/memif_gate.hpp"

#include <rte_alarm.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace rdmc::port::dpdk {
namespace {

/// What the driver says before it ends a connection: that the other end is gone, or has said that it goes.
constexpr std::string_view kGone = "Invalid message size", kGoes = "Disconnect received";
/// A burst takes microseconds, and its thread may wait for a CPU. No longer than this: it might wait for the
/// log.
constexpr auto kPatience = std::chrono::seconds(1);
constexpr auto kNap = std::chrono::microseconds(50);

struct Lanes {
  std::mutex mutex;
  std::vector<const std::atomic<bool>*> busy;
};

/// Never destroyed: DPDK's threads log until the process is gone.
Lanes& lanes() {
  static auto* const all = new Lanes;
  return *all;
}

}  // namespace

std::atomic<bool> MemifGate::closed_ = false;

MemifGate::MemifGate() {
  const std::lock_guard lock(lanes().mutex);
  lanes().busy.push_back(&busy_);
}

MemifGate::~MemifGate() {
  const std::lock_guard lock(lanes().mutex);
  std::erase(lanes().busy, &busy_);
}

void MemifGate::on_log(std::string_view line) {
  if (line.find(kGone) != std::string_view::npos || line.find(kGoes) != std::string_view::npos) close();
}

/// On the interrupt thread, which opens the gate again when it is done with what it is about to do.
void MemifGate::close() {
  closed_.store(true);
  const auto open = [](void*) { closed_.store(false); };
  if (rte_eal_alarm_set(1, open, nullptr) != 0) return closed_.store(false);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  const std::lock_guard lock(lanes().mutex);
  const auto in_burst = [] {
    return std::ranges::any_of(lanes().busy, [](const std::atomic<bool>* busy) { return busy->load(); });
  };
  while (in_burst() && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(kNap);
}

}  // namespace rdmc::port::dpdk

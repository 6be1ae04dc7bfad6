#include "dataplane/port/dpdk/memif_gate.hpp"

#include <rte_alarm.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace rdmc::port::dpdk {
namespace {

/// The log lines that the driver writes before it ends a connection. The first line means that the other end
/// has disappeared. The second line means that the other end has announced its end.
constexpr std::string_view kGone = "Invalid message size", kGoes = "Disconnect received";
/// The maximum time to wait for bursts to end. A burst takes microseconds, but its thread may have to wait
/// for a CPU. The wait is limited because that thread may itself wait for the log.
constexpr auto kPatience = std::chrono::seconds(1);
constexpr auto kNap = std::chrono::microseconds(50);

struct Lanes {
  std::mutex mutex;
  std::vector<const std::atomic<bool>*> busy;
};

/// Returns the only Lanes object. It is never destroyed, because DPDK's threads log until the process has
/// ended.
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

/// Closes all gates and waits until no burst is in progress. Runs on the interrupt thread. An alarm opens the
/// gates again on the same thread, after this thread has unmapped the rings.
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

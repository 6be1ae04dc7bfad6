// Measures the distance between processors. All data that one process sends to another moves from one
// processor's cache to another processor's cache. If the two processors share no cache, this takes two to
// three times as long. The host of a virtual machine may move the processors of the virtual machine at any
// time, so that they share a cache or no longer share one.
#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace rdmc::bench {

/// Returns the time in nanoseconds that a cache line takes from the first processor that this process may use
/// to the last one, and back. The result is the smallest of eight averages, each over 500 round trips.
/// Returns 0 if there is only one processor, or if threads cannot choose their processors. Takes a few
/// milliseconds.
inline double line_round_trip_ns() {
  constexpr std::uint32_t kMeans = 8, kTimes = 500;
  cpu_set_t ours, first, last;
  if (sched_getaffinity(0, sizeof ours, &ours) != 0 || CPU_COUNT(&ours) < 2) return 0;
  int low = 0, high = CPU_SETSIZE - 1;
  while (!CPU_ISSET(low, &ours)) ++low;
  while (!CPU_ISSET(high, &ours)) --high;
  CPU_ZERO(&first);
  CPU_SET(low, &first);
  CPU_ZERO(&last);
  CPU_SET(high, &last);
  if (sched_setaffinity(0, sizeof first, &first) != 0) return 0;
  alignas(128) std::atomic<std::uint32_t> line{0};
  const auto pass_on = [&line](std::uint32_t at) {
    while (line.load(std::memory_order_acquire) != at) {
    }
    line.store(at + 1, std::memory_order_release);
  };
  double least = 0;
  std::jthread there([&] {
    sched_setaffinity(0, sizeof last, &last);
    for (std::uint32_t i = 0; i < kMeans * kTimes; ++i) pass_on(2 * i + 1);
  });
  for (std::uint32_t mean = 0; mean < kMeans; ++mean) {
    const auto start = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < kTimes; ++i) pass_on(2 * (mean * kTimes + i));
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    if (mean == 0 || took.count() / kTimes < least) least = took.count() / kTimes;
  }
  there.join();
  sched_setaffinity(0, sizeof ours, &ours);
  return least;
}

}  // namespace rdmc::bench

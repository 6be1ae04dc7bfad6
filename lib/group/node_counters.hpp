// The counters behind NodeCounters. The application's threads and the fabric thread write them. Any thread
// may read them.
#pragma once

#include <atomic>
#include <cstdint>

namespace rdmc::group {

struct NodeCounts {
  std::atomic<std::uint64_t> messages_sent = 0, bytes_sent = 0;
  std::atomic<std::uint64_t> messages_delivered = 0, bytes_delivered = 0;
  std::atomic<std::uint64_t> groups_made = 0, groups_failed = 0, groups_continued = 0;
  std::atomic<std::uint64_t> connections_made = 0, connections_ended = 0;

  void sent(std::uint64_t bytes) { add(messages_sent, 1), add(bytes_sent, bytes); }
  void delivered(std::uint64_t bytes) { add(messages_delivered, 1), add(bytes_delivered, bytes); }
  static void add(std::atomic<std::uint64_t>& counter, std::uint64_t more) {
    counter.fetch_add(more, std::memory_order_relaxed);
  }
};

}  // namespace rdmc::group

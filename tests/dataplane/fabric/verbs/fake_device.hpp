// A simulated RDMA device. It replaces libibverbs in the program that is linked with it. Its queue pairs
// accept work requests and connect to any peer. The test decides when work requests are flushed and what the
// device reports. A process has one such device. Any thread may use the device, because each QP bring-up has
// its own thread.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "dataplane/base/address.hpp"
#include "dataplane/base/descriptor.hpp"

namespace rdmc::fabric::testing {

class FakeDevice {
 public:
  static FakeDevice& instance();

  Address address = Address::ipv4(10, 9, 8, 7, 0);  ///< The address in the device's GID.
  /// True if work requests complete as soon as their queue pair is in the error state.
  bool flushes_at_once = true;
  std::size_t polls = 0;      ///< The number of calls that polled the completion queues.
  std::size_t destroyed = 0;  ///< The number of destroyed queue pairs.

  std::size_t queue_pairs();
  /// Returns the number of the newest queue pair.
  std::uint32_t youngest();
  /// Returns true if the device has an unfinished work request of the queue pair `number` that names memory.
  bool names_memory(std::uint32_t number);
  /// Reports the event that the queue pair `number` will fetch no more shared receives.
  void say_drained(std::uint32_t number);

  // The members from here on are used by the functions of libibverbs.
  struct QueuePair {
    ibv_qp qp{};
    ibv_qp_state state = IBV_QPS_RESET;
    std::deque<ibv_wc> posted;
    std::size_t with_memory = 0;  ///< The number of posted work requests that name memory.
  };
  void flush(QueuePair& one);

  std::recursive_mutex mutex;
  ibv_device device{};
  std::map<ibv_qp*, std::unique_ptr<QueuePair>> all;
  std::deque<ibv_async_event> events;
  std::map<ibv_cq*, std::deque<ibv_wc>> completions;
  std::uint32_t next_number = 17;
  Descriptor async;
};

}  // namespace rdmc::fabric::testing

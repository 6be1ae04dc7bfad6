// An RDMA device that a test plays: it stands in for libibverbs in the program that is linked with it. Queue
// pairs take works and connect to anybody; when they are flushed and what the device tells is the test's
// choice. There is one in a process. Any thread, since introductions have their own.
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

  Address address = Address::ipv4(10, 9, 8, 7, 0);  ///< its GID
  /// Whether works come back as soon as their queue pair is in the error state.
  bool flushes_at_once = true;
  std::size_t polls = 0;      ///< of the completion queues
  std::size_t destroyed = 0;  ///< queue pairs

  std::size_t queue_pairs();
  /// Of the youngest queue pair.
  std::uint32_t youngest();
  /// Whether a work of that queue pair which the device has not finished with names memory.
  bool names_memory(std::uint32_t number);
  /// Tells that the queue pair takes no more shared receives.
  void say_drained(std::uint32_t number);

  // For the functions of libibverbs.
  struct QueuePair {
    ibv_qp qp{};
    ibv_qp_state state = IBV_QPS_RESET;
    std::deque<ibv_wc> posted;
    std::size_t with_memory = 0;  ///< of those that name memory
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

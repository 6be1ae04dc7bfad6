// The verbs provider: RC queue pairs of an RDMA NIC, which runs the protocol. The packets are RoCEv2, like
// those of the software fabric, which communicates with a NIC in standard mode. So members with and without a
// NIC can join one group. One completion queue and one receive queue serve all queue pairs. A thread with
// nothing to do sleeps on the device's completion channel. One thread owns the fabric and everything made
// from it. The fabric must outlive its queue pairs and memory regions.
#pragma once

#include <poll.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "dataplane/base/address.hpp"
#include "dataplane/base/descriptor.hpp"
#include "dataplane/fabric/queue_pair.hpp"
#include "dataplane/fabric/verbs/bring_up.hpp"
#include "dataplane/fabric/verbs/local_keys.hpp"
#include "dataplane/fabric/verbs/shared_receives.hpp"
#include "dataplane/fabric/verbs/verbs_device.hpp"

namespace rdmc::fabric {

class VerbsQueuePair;

struct VerbsFabricCounters {
  /// Registrations of local memory, without the registrations that give rights to peers.
  std::uint64_t registrations = 0;
  std::uint64_t shared_receives = 0;  ///< Messages that arrived in the shared receive queue.
  std::uint64_t bytes_copied = 0;  ///< The bytes that were copied from the slots of the shared receive queue.
  std::uint64_t asynchronous_events = 0;
};

class VerbsFabric final : public Fabric {
 public:
  /// Opens the device that has `address` as a RoCE v2 GID. `entropy` is the same as in SoftwareFabricOptions.
  /// `traffic_class` is for the IP headers of all packets; the device sets the two ECN bits. Errors: those of
  /// VerbsDevice::open, resource_limit.
  static Result<std::unique_ptr<VerbsFabric>> open(const Address& address,
                                                   std::function<std::uint32_t()> entropy,
                                                   std::uint8_t traffic_class = 0);
  /// If queue pairs were destroyed during their bring-up, waits until the kernel has stopped looking for
  /// their peers: for about a second at most.
  ~VerbsFabric() override;

  FabricInfo info() const override;
  /// Errors: invalid_argument for depths that the device does not support, unsupported if the path MTU is
  /// below 256 bytes, resource_limit.
  Result<std::unique_ptr<QueuePair>> create_queue_pair(const QueuePairOptions& options) override;
  /// Errors: resource_limit if the memory cannot be pinned, unsupported for RemoteAccess::invalidate, which
  /// would need memory windows.
  Result<std::unique_ptr<MemoryRegion>> register_memory(std::span<std::byte> memory,
                                                        MemoryUse use = MemoryUse::general,
                                                        RemoteAccess access = RemoteAccess::write) override;

  std::size_t progress(Time now) override;
  Time next_deadline() const override;
  void wait(Time deadline) override;
  void wake() noexcept override;
  Result<std::vector<int>> wait_descriptors() override;
  Time prepare_wait(Time deadline) override;
  void finish_wait() override;
  std::uint64_t bytes_copied() const override { return counters_.bytes_copied; }

  const std::string& device() const { return device_.name; }
  /// True if the kernel emulates the device (Soft-RoCE). Such a device has this vendor id.
  bool is_emulated() const { return device_.limits.vendor_id == 0xFFFFFF; }
  VerbsFabricCounters counters() const;

 private:
  friend class VerbsQueuePair;
  class Region;

  static constexpr int kPolledAtOnce = 64;
  /// The bit that marks the work id of a shared receive. Such a work id also contains the queue's generation
  /// and the slot.
  static constexpr std::uint64_t kSharedReceive = std::uint64_t{1} << 63;

  VerbsFabric(const Address& address, VerbsDevice device, std::function<std::uint32_t()> entropy,
              std::uint8_t traffic_class);
  static std::uint64_t work_id(std::uint32_t serial, bool receive) {
    return std::uint64_t{serial} << 1 | (receive ? 1 : 0);
  }
  Result<void> make_room_in_completion_queue(std::uint32_t more);
  /// The part of a destroyed queue pair that the device still has. The queue pair is in the error state and
  /// refers to no memory of the application.
  struct Leaving {
    VerbsHandle<ibv_qp> handle;
    // Destroyed before the handle. Null if the bring-up has ended.
    std::unique_ptr<BringUp> bring_up;
    std::uint32_t completions = 0;
    bool shares_receives = false;
    Time drained_at_latest{};
    bool drained = false;  ///< True if the device has reported that the queue pair is drained.
  };
  void forget(VerbsQueuePair& queue_pair);
  bool gives_memory_back(VerbsQueuePair& queue_pair);
  void finish_those_leaving(Time now);
  void destroy(VerbsHandle<ibv_qp>& handle);
  void make_room_of(const Leaving& leaving);
  void revoke(VerbsHandle<ibv_mr> region);
  void renew_shared_receives();
  std::uint64_t shared_tag() const;
  std::uint64_t fresh_address(std::span<const std::byte> memory);
  Result<void> check_device() const;
  std::size_t poll_device();
  void dispatch(const ibv_wc& completion);
  void poll_events();
  void fail_all(const std::string& cause);

  Address address_;
  VerbsDevice device_;
  std::function<std::uint32_t()> entropy_;
  std::uint8_t traffic_class_;
  std::array<pollfd, 3> events_to_wait_for() const;

  Descriptor wake_;
  VerbsHandle<ibv_comp_channel> channel_;
  VerbsHandle<ibv_cq> completions_;
  // The number of completion queue entries for all work requests that are posted or may be posted.
  std::uint32_t completions_wanted_ = 0;
  LocalKeys local_keys_;
  std::optional<SharedReceives> shared_receives_;  // Empty if the device has no shared receive queues.
  std::unordered_map<std::uint32_t, VerbsQueuePair*> by_serial_, by_number_;
  std::uint32_t next_serial_ = 1;
  std::uint32_t sharing_ = 0;            // The number of queue pairs that use the shared receive queue.
  std::uint32_t shared_generation_ = 0;  // The number of times that the shared receive queue was renewed.
  std::size_t undelivered_ = 0;          // The number of completions that wait to be polled.
  bool news_ = false;                    // True if a queue pair has failed since the last progress().
  // True if the device has failed, or did not revoke a remote key.
  bool broken_ = false;
  std::uint32_t waiting_ = 0;        // The number of queue pairs with posted work requests.
  std::uint32_t introductions_ = 0;  // The number of queue pairs in QP bring-up.
  Time now_{}, next_check_{};
  // The destroyed queue pairs that are kept until the device has drained them and their bring-up has ended.
  std::vector<Leaving> leaving_;
  VerbsFabricCounters counters_;
};

}  // namespace rdmc::fabric

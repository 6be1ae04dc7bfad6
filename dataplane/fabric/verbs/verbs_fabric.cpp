#include "dataplane/fabric/verbs/verbs_fabric.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>

#include "dataplane/base/clock.hpp"
#include "dataplane/fabric/connection_blob.hpp"
#include "dataplane/fabric/verbs/verbs_queue_pair.hpp"
#include "dataplane/fabric/verbs/verbs_terms.hpp"
#include "dataplane/memory/arena.hpp"

namespace rdmc::fabric {
namespace {

/// The window for payload in flight to a NIC. A NIC does not report the size of its packet buffers. This
/// value suits the buffers of all NICs.
constexpr std::uint32_t kReceiveWindow = 512 * 1024;
constexpr std::uint32_t kFirstCompletions = 16'384;
/// The maximum depth of a queue, as in SoftwareFabric.
constexpr std::uint32_t kMaxDepth = 1 << 16;
/// The smallest usable limit on locked memory. It is twice the memory that a group needs for a file.
constexpr rlim_t kLeastLockedBytes = 64 << 20;
/// The maximum time to wait until the device has drained a queue pair. A device reports the end of draining
/// within microseconds, or never.
constexpr Duration kDrainPatience = milliseconds(10);

bool set_nonblocking(int fd) {
  return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0;
}

}  // namespace

VerbsFabric::VerbsFabric(const Address& address, VerbsDevice device, std::function<std::uint32_t()> entropy,
                         std::uint8_t traffic_class)
    : address_(address),
      device_(std::move(device)),
      entropy_(std::move(entropy)),
      traffic_class_(traffic_class),
      local_keys_(device_.domain.get()) {
  address_.port = kRocePort;
}

VerbsFabric::~VerbsFabric() {
  assert(by_serial_.empty());
  // This waits for the threads of the bring-ups, which wake this object.
  leaving_.clear();
}

Result<std::unique_ptr<VerbsFabric>> VerbsFabric::open(const Address& address,
                                                       std::function<std::uint32_t()> entropy,
                                                       std::uint8_t traffic_class) {
  auto device = VerbsDevice::open(address);
  if (!device) return std::unexpected(device.error());
  rlimit locked{};
  if (geteuid() != 0 && getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur < kLeastLockedBytes)
    return fail(Errc::resource_limit, "the limit on locked memory (ulimit -l) is " +
                                          std::to_string(locked.rlim_cur / 1024) + " KB; " + device->name +
                                          " takes 64 MB and more");
  std::unique_ptr<VerbsFabric> self(
      new VerbsFabric(address, std::move(*device), std::move(entropy), traffic_class));
  ibv_context* const context = self->device_.context.get();
  self->wake_ = Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  self->channel_.reset(ibv_create_comp_channel(context));
  if (self->wake_.get() < 0 || !self->channel_ || !set_nonblocking(self->channel_->fd) ||
      !set_nonblocking(context->async_fd))
    return fail_errno("waiting for " + self->device_.name, errno);
  const auto completions = std::min<int>(kFirstCompletions, self->device_.limits.max_cqe);
  self->completions_.reset(ibv_create_cq(context, completions, nullptr, self->channel_.get(), 0));
  if (!self->completions_) return fail_errno("a completion queue of " + self->device_.name, errno);
  auto shared = SharedReceives::make(self->device_);
  if (shared) {
    self->shared_receives_ = std::move(*shared);
    self->shared_receives_->post(self->shared_tag());
    self->completions_wanted_ = SharedReceives::kSlots;
  } else if (shared.error().code != Errc::unsupported) {
    return std::unexpected(shared.error());
  }
  return self;
}

FabricInfo VerbsFabric::info() const {
  return {.name = "verbs",
          .path_mtu = device_.path_mtu,
          .pins_memory = true,
          .atomics = device_.limits.atomic_cap != IBV_ATOMIC_NONE,
          .ties_keys = false,
          .largest_message = device_.largest_message};
}

VerbsFabricCounters VerbsFabric::counters() const {
  VerbsFabricCounters counters = counters_;
  counters.registrations = local_keys_.registrations();
  return counters;
}

Result<void> VerbsFabric::make_room_in_completion_queue(std::uint32_t more) {
  const std::uint32_t wanted = completions_wanted_ + more;
  if (wanted > static_cast<std::uint32_t>(completions_->cqe)) {
    const auto entries = std::min(std::bit_ceil(wanted), static_cast<std::uint32_t>(device_.limits.max_cqe));
    const int error =
        entries < wanted ? ENOSPC : ibv_resize_cq(completions_.get(), static_cast<int>(entries));
    if (error != 0)
      return fail(Errc::resource_limit, device_.name + " has no completion queue for " +
                                            std::to_string(wanted) +
                                            " works at a time: " + std::strerror(std::abs(error)));
  }
  completions_wanted_ = wanted;
  return {};
}

Result<std::unique_ptr<QueuePair>> VerbsFabric::create_queue_pair(const QueuePairOptions& options) {
  if (auto works = check_device(); !works) return std::unexpected(works.error());
  const auto most = std::min(static_cast<std::uint32_t>(device_.limits.max_qp_wr), kMaxDepth);
  const bool shares = shared_receives_ && options.largest_receive != 0 &&
                      options.largest_receive <= SharedReceives::kSlotBytes;
  if (options.send_depth == 0 || options.send_depth > most || options.receive_depth == 0 ||
      options.receive_depth > (shares ? kMaxDepth : most) || options.max_rd_atomic == 0)
    return fail(Errc::invalid_argument, "a queue pair's depths lie between 1 and " + std::to_string(most) +
                                            " on " + device_.name + ", max_rd_atomic between 1 and 255");
  const std::uint32_t wanted =
      options.path_mtu == 0 ? device_.path_mtu : std::min(options.path_mtu, device_.path_mtu);
  if (wanted < 256) return fail(Errc::unsupported, "a path MTU below 256 bytes");
  const std::uint32_t completions = options.send_depth + (shares ? 0 : options.receive_depth);
  if (auto room = make_room_in_completion_queue(completions); !room) return std::unexpected(room.error());
  VerbsQueuePair::Made made{
      .serial = next_serial_++, .inline_bytes = VerbsQueuePair::kInlineBytes, .shares_receives = shares};
  ibv_qp_init_attr wish{.send_cq = completions_.get(),
                        .recv_cq = completions_.get(),
                        .srq = shares ? shared_receives_->queue() : nullptr,
                        .cap = {.max_send_wr = options.send_depth,
                                .max_recv_wr = shares ? 0 : options.receive_depth,
                                .max_send_sge = 1,
                                .max_recv_sge = shares ? 0U : 1U,
                                .max_inline_data = VerbsQueuePair::kInlineBytes},
                        .qp_type = IBV_QPT_RC,
                        .sq_sig_all = 1};
  made.handle.reset(ibv_create_qp(device_.domain.get(), &wish));
  // Tries again without inline data, which not every device supports.
  if (!made.handle) {
    made.inline_bytes = wish.cap.max_inline_data = 0;
    made.handle.reset(ibv_create_qp(device_.domain.get(), &wish));
  }
  const auto refused = [&](int error) {
    completions_wanted_ -= completions;
    return fail_errno("a queue pair of " + device_.name, error);
  };
  if (!made.handle) return refused(errno);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = device_.port;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  if (device_.limits.atomic_cap != IBV_ATOMIC_NONE) attributes.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
  if (const int error = ibv_modify_qp(made.handle.get(), &attributes,
                                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
      error != 0)
    return refused(error);
  const ConnectionInfo local{
      .shared = address_,
      .bulk_port = kRocePort,
      .qpn = Qpn{made.handle->qp_num},
      .first_psn = Psn(entropy_()),
      .path_mtu = std::bit_floor(wanted),
      .receive_window = kReceiveWindow,
      .foreign = true,
      .nic = true,
      .max_rd_atomic = device_.reads_at_most(options.max_rd_atomic, device_.limits.max_qp_rd_atom)};
  const std::uint32_t serial = made.serial;
  auto queue_pair = std::make_unique<VerbsQueuePair>(*this, options, local, std::move(made));
  by_serial_.emplace(serial, queue_pair.get());
  by_number_.emplace(value_of(local.qpn), queue_pair.get());
  sharing_ += shares ? 1 : 0;
  return queue_pair;
}

void VerbsFabric::forget(VerbsQueuePair& queue_pair) {
  queue_pair.failed_ = true;
  const bool shares = queue_pair.made_.shares_receives;
  const bool under_way = queue_pair.bring_up_ && !queue_pair.bring_up_->is_over();
  if (queue_pair.bring_up_) --introductions_;
  Leaving leaving{
      .handle = {},
      .bring_up = std::move(queue_pair.bring_up_),
      .completions = queue_pair.options_.send_depth + (shares ? 0 : queue_pair.options_.receive_depth),
      .shares_receives = shares};
  bool stays = true;
  if (under_way) {
    // From here on, the device refuses the further steps of the bring-up. It also writes nothing more into
    // memory that the application owns again. But the kernel cannot destroy a queue pair while a thread waits
    // in a call for that queue pair.
    queue_pair.to_error();
  } else {
    leaving.bring_up.reset();
    stays = queue_pair.connected_ && shares && !queue_pair.drained_ && gives_memory_back(queue_pair);
    if (stays) leaving.drained_at_latest = monotonic_now() + kDrainPatience;
  }
  leaving.handle = std::move(queue_pair.made_.handle);
  if (!stays) destroy(leaving.handle);
  queue_pair.give_everything_back();
  undelivered_ -= queue_pair.done_.size();
  by_serial_.erase(queue_pair.made_.serial);
  by_number_.erase(value_of(queue_pair.local_.qpn));
  stays ? leaving_.push_back(std::move(leaving)) : make_room_of(leaving);
}

/// Tries to empty the queue pair before it is destroyed. Returns true if all its work requests have
/// completed.
///
/// The device may have fetched a shared receive for this queue pair. This receive is lost when the queue pair
/// is destroyed, unless the device has first drained the queue pair and reported this (ibv_destroy_qp;
/// IBV_EVENT_QP_LAST_WQE_REACHED). Therefore the work requests of the queue pair are made to complete as
/// flushed. Most devices do this at once. After that, the queue pair uses no memory of the application, and
/// the device drains it while other queue pairs run. If the work requests do not complete in time, the queue
/// pair is destroyed at once. The shared receive is then lost until the queue is renewed.
bool VerbsFabric::gives_memory_back(VerbsQueuePair& queue_pair) {
  queue_pair.to_error();
  for (int left = completions_->cqe; left > 0 && !queue_pair.posted_.empty(); left -= kPolledAtOnce)
    if (poll_device() == 0) break;
  return queue_pair.posted_.empty();
}

void VerbsFabric::finish_those_leaving(Time now) {
  const auto drains = [](const Leaving& leaving) { return !leaving.bring_up && !leaving.drained; };
  // Polls the events, because an event may report that a queue pair has drained.
  if (std::ranges::any_of(leaving_, drains)) poll_events();
  std::erase_if(leaving_, [&](Leaving& leaving) {
    if (leaving.bring_up && !leaving.bring_up->is_over()) return false;
    if (!leaving.drained && now < leaving.drained_at_latest) return false;
    leaving.bring_up.reset();
    destroy(leaving.handle);
    make_room_of(leaving);
    return true;
  });
}

/// Destroys the queue pair. Then polls all completions that the device made before, so that no later
/// completion belongs to this queue pair.
void VerbsFabric::destroy(VerbsHandle<ibv_qp>& handle) {
  handle.reset();
  for (int left = completions_->cqe; left > 0 && poll_device() != 0; left -= kPolledAtOnce) {
  }
}

void VerbsFabric::make_room_of(const Leaving& leaving) {
  completions_wanted_ -= leaving.completions;
  if (leaving.shares_receives && --sharing_ == 0) renew_shared_receives();
}

/// Replaces the shared receive queue when no queue pair uses it. This restores the receives that were lost
/// when queue pairs were destroyed.
void VerbsFabric::renew_shared_receives() {
  auto fresh = SharedReceives::make(device_);
  if (!fresh) return;
  shared_receives_ = std::move(*fresh);
  ++shared_generation_;
  shared_receives_->post(shared_tag());
}

std::uint64_t VerbsFabric::shared_tag() const {
  return kSharedReceive | std::uint64_t{shared_generation_ & 0x7FFF'FFFF} << 32;
}

Result<void> VerbsFabric::check_device() const {
  if (broken_) return fail(Errc::unsupported, "the RDMA device " + device_.name + " has failed");
  return {};
}

}  // namespace rdmc::fabric

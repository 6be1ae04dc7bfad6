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

constexpr std::uint16_t kRocePort = 4791;
/// Of payload on its way to a NIC: what its own packet buffers hold is not told, and this fits all.
constexpr std::uint32_t kReceiveWindow = 512 * 1024;
constexpr std::uint32_t kInlineBytes = 64;
constexpr int kPolledAtOnce = 64;
constexpr std::uint32_t kFirstCompletions = 16'384;
/// As SoftwareFabric has it.
constexpr std::uint32_t kMaxDepth = 1 << 16;
/// What a group of a file takes, and as much again.
constexpr rlim_t kLeastLockedBytes = 64 << 20;
/// A device that has drained a queue pair says so in microseconds, or never.
constexpr Duration kLastReceivePatience = milliseconds(10);
/// Large pages stay large ones to the device where both addresses agree on these bits.
constexpr std::uint64_t kAlikeBytes = 2 << 20;
/// How often the device's own events and the queue pairs' patience are looked at.
constexpr Duration kCheckInterval = milliseconds(20);
/// In the work id of a shared receive's completion, beside the queue's generation and the slot.
constexpr std::uint64_t kSharedReceive = std::uint64_t{1} << 63;

bool set_nonblocking(int fd) {
  return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0;
}

}  // namespace

/// Its key is the device's, so it dies with the registration: from then on the device refuses what names it.
/// Works go by a registration without rights, which others may share and which may stay.
class VerbsFabric::Region final : public MemoryRegion {
 public:
  Region(VerbsFabric& fabric, LocalKeys::Lease local, VerbsHandle<ibv_mr> handle, std::uint64_t address)
      : fabric_(fabric), local_(local), handle_(std::move(handle)), address_(address) {}
  ~Region() override {
    if (handle_) fabric_.revoke(std::move(handle_));
    fabric_.local_keys_.release(local_, LocalKeys::Holder::region);
  }
  RemoteKey remote_key() const noexcept override { return RemoteKey{handle_ ? handle_->rkey : 0}; }
  std::uint64_t remote_address() const noexcept override { return address_; }
  void grant(VerbsHandle<ibv_mr> handle, std::uint64_t address) {
    handle_ = std::move(handle);
    address_ = address;
  }

 private:
  VerbsFabric& fabric_;
  LocalKeys::Lease local_;
  VerbsHandle<ibv_mr> handle_;  // none: no bytes, or no rights
  std::uint64_t address_;
};

VerbsFabric::VerbsFabric(const Address& address, VerbsDevice device, std::function<std::uint32_t()> entropy)
    : address_(address),
      device_(std::move(device)),
      entropy_(std::move(entropy)),
      local_keys_(device_.domain.get()) {
  address_.port = kRocePort;
}

VerbsFabric::~VerbsFabric() {
  assert(by_serial_.empty());
}

Result<std::unique_ptr<VerbsFabric>> VerbsFabric::open(const Address& address,
                                                       std::function<std::uint32_t()> entropy) {
  auto device = VerbsDevice::open(address);
  if (!device) return std::unexpected(device.error());
  rlimit locked{};
  if (geteuid() != 0 && getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur < kLeastLockedBytes)
    return fail(Errc::resource_limit, "the limit on locked memory (ulimit -l) is " +
                                          std::to_string(locked.rlim_cur / 1024) + " KB; " + device->name +
                                          " takes 64 MB and more");
  std::unique_ptr<VerbsFabric> self(new VerbsFabric(address, std::move(*device), std::move(entropy)));
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
  return {.name = "verbs", .path_mtu = device_.path_mtu, .pins_memory = true};
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
      .serial = next_serial_++, .inline_bytes = kInlineBytes, .shares_receives = shares};
  ibv_qp_init_attr wish{.send_cq = completions_.get(),
                        .recv_cq = completions_.get(),
                        .srq = shares ? shared_receives_->queue() : nullptr,
                        .cap = {.max_send_wr = options.send_depth,
                                .max_recv_wr = shares ? 0 : options.receive_depth,
                                .max_send_sge = 1,
                                .max_recv_sge = shares ? 0U : 1U,
                                .max_inline_data = kInlineBytes},
                        .qp_type = IBV_QPT_RC,
                        .sq_sig_all = 1};
  made.handle.reset(ibv_create_qp(device_.domain.get(), &wish));
  if (!made.handle) {  // without what not every device has
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
      .stranger = true,
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
  if (queue_pair.connected_ && queue_pair.made_.shares_receives) wait_for_last_receive(queue_pair);
  queue_pair.made_.handle.reset();
  // Nothing follows what the device has completed by now: after this no completion names it any more.
  for (int left = completions_->cqe; left > 0 && poll_device() != 0; left -= kPolledAtOnce) {
  }
  queue_pair.give_everything_back();
  undelivered_ -= queue_pair.done_.size();
  completions_wanted_ -= queue_pair.options_.send_depth +
                         (queue_pair.made_.shares_receives ? 0 : queue_pair.options_.receive_depth);
  by_serial_.erase(queue_pair.made_.serial);
  by_number_.erase(value_of(queue_pair.local_.qpn));
  if (queue_pair.made_.shares_receives && --sharing_ == 0) renew_shared_receives();
}

/// A queue pair that is destroyed takes along the shared receive that it has fetched, unless it has drained
/// first and said so (ibv_destroy_qp; IBV_EVENT_QP_LAST_WQE_REACHED). Not every device says it.
void VerbsFabric::wait_for_last_receive(VerbsQueuePair& queue_pair) {
  queue_pair.to_error();
  const Time end = monotonic_now() + kLastReceivePatience;
  do {
    poll_device();
    poll_events();
  } while (!queue_pair.drained_ && monotonic_now() < end);
}

/// What queue pairs took along after all is back with a new queue, once nobody has the old one.
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

void VerbsFabric::revoke(VerbsHandle<ibv_mr> region) {
  // What peers may still write would spread wrong bytes: without its registration gone nobody may go on.
  if (ibv_dereg_mr(region.release()) != 0) fail_all("the RDMA device did not take back a remote key");
}

/// Peers are told nothing of this process's layout, and since a device may give a key out again, not the same
/// addresses again either: an old key finds nothing there.
std::uint64_t VerbsFabric::fresh_address(std::span<const std::byte> memory) {
  const std::uint64_t random = std::uint64_t{entropy_()} << 14 ^ entropy_();
  return random % (std::uint64_t{1} << 25) * kAlikeBytes +
         reinterpret_cast<std::uint64_t>(memory.data()) % kAlikeBytes;
}

Result<void> VerbsFabric::check_device() const {
  if (broken_) return fail(Errc::unsupported, "the RDMA device " + device_.name + " has failed");
  return {};
}

Result<std::unique_ptr<MemoryRegion>> VerbsFabric::register_memory(std::span<std::byte> memory, MemoryUse,
                                                                   RemoteAccess access) {
  if (auto works = check_device(); !works) return std::unexpected(works.error());
  if (permits(access, RemoteAccess::invalidate))
    return fail(Errc::unsupported, "a NIC's region cannot be invalidated by a peer");
  if (permits(access, RemoteAccess::atomic) && device_.limits.atomic_cap == IBV_ATOMIC_NONE)
    return fail(Errc::unsupported, device_.name + " has no atomics");
  if (memory.empty()) return std::make_unique<Region>(*this, LocalKeys::Lease{}, nullptr, 0);
  const auto use = access == RemoteAccess::none ? LocalKeys::Use::read : LocalKeys::Use::write;
  const auto local = local_keys_.lease(memory, LocalKeys::Holder::region, use);
  if (!local) return std::unexpected(local.error());
  auto region = std::make_unique<Region>(*this, *local, nullptr, 0);
  if (access == RemoteAccess::none) return region;
  const std::uint64_t address = fresh_address(memory);
  auto handle = register_with_device(device_.domain.get(), memory, address, access_flags(access));
  if (!handle) return std::unexpected(handle.error());
  region->grant(std::move(*handle), address);
  return region;
}

std::size_t VerbsFabric::progress(Time now) {
  now_ = now;
  const std::size_t done = poll_device();
  if (now >= next_check_) {
    next_check_ = now + kCheckInterval;
    poll_events();
    for (const auto& [serial, queue_pair] : by_serial_) queue_pair->check_patience(now);
  }
  return done + (std::exchange(news_, false) ? 1 : 0);
}

Time VerbsFabric::next_deadline() const {
  return waiting_ == 0 ? Time::never() : next_check_;
}

std::size_t VerbsFabric::poll_device() {
  std::array<ibv_wc, kPolledAtOnce> completions;
  const int count = ibv_poll_cq(completions_.get(), static_cast<int>(completions.size()), completions.data());
  if (count < 0) {
    fail_all("the RDMA device's completion queue failed");
    return 0;
  }
  for (const ibv_wc& completion : std::span(completions).first(static_cast<std::size_t>(count)))
    dispatch(completion);
  if (shared_receives_) shared_receives_->post(shared_tag());
  return static_cast<std::size_t>(count);
}

void VerbsFabric::dispatch(const ibv_wc& completion) {
  if ((completion.wr_id & kSharedReceive) != 0) {
    if ((completion.wr_id >> 32) != shared_tag() >> 32) return;
    const auto index = static_cast<std::uint32_t>(completion.wr_id);
    const auto found = by_number_.find(completion.qp_num);
    if (found == by_number_.end() || !found->second->on_shared_receive(completion, index))
      shared_receives_->give_back(index);
    return;
  }
  const auto found = by_serial_.find(static_cast<std::uint32_t>(completion.wr_id >> 1));
  if (found == by_serial_.end()) return;
  if ((completion.wr_id & 1) != 0) {
    found->second->on_receive(completion);
  } else {
    found->second->on_work(completion);
  }
}

void VerbsFabric::poll_events() {
  ibv_async_event event{};
  while (ibv_get_async_event(device_.context.get(), &event) == 0) {
    ++counters_.asynchronous_events;
    const std::string what = std::string("the RDMA device reports: ") + ibv_event_type_str(event.event_type);
    switch (event.event_type) {
      case IBV_EVENT_QP_FATAL:
      case IBV_EVENT_QP_REQ_ERR:
      case IBV_EVENT_QP_ACCESS_ERR:
        if (const auto found = by_number_.find(event.element.qp->qp_num); found != by_number_.end())
          found->second->fail(event.event_type == IBV_EVENT_QP_ACCESS_ERR
                                  ? "the peer reached outside of what it was granted"
                                  : what);
        break;
      case IBV_EVENT_QP_LAST_WQE_REACHED:
        if (const auto found = by_number_.find(event.element.qp->qp_num); found != by_number_.end()) {
          found->second->drained_ = true;
          found->second->fail(text_of(IBV_WC_WR_FLUSH_ERR));
        }
        break;
      case IBV_EVENT_CQ_ERR:
      case IBV_EVENT_SRQ_ERR:
      case IBV_EVENT_DEVICE_FATAL: fail_all(what); break;
      default: break;  // ports and addresses that come and go show in retries
    }
    ibv_ack_async_event(&event);
  }
}

void VerbsFabric::fail_all(const std::string& cause) {
  broken_ = true;
  for (const auto& [serial, queue_pair] : by_serial_) queue_pair->fail(cause);
}

void VerbsFabric::wait(Time deadline) {
  if (undelivered_ != 0 || news_) return;
  // Ask to be told first, then look once more: what comes in between is seen by one of the two.
  if (ibv_req_notify_cq(completions_.get(), 0) != 0 || poll_device() != 0) return;
  const Time now = monotonic_now();
  if (deadline <= now) return;
  const std::int64_t left = std::min(deadline - now, seconds(3600)).ns;
  const timespec longest{.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
  std::array<pollfd, 3> watched{
      {{.fd = wake_.get(), .events = POLLIN, .revents = 0},
       {.fd = channel_->fd, .events = POLLIN, .revents = 0},
       {.fd = broken_ ? -1 : device_.context->async_fd, .events = POLLIN, .revents = 0}}};
  if (ppoll(watched.data(), watched.size(), &longest, nullptr) <= 0) return;
  std::uint64_t wakes = 0;
  if (watched[0].revents != 0) [[maybe_unused]]
    const auto drained = read(wake_.get(), &wakes, sizeof wakes);
  if (watched[1].revents != 0) {
    ibv_cq* queue = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(channel_.get(), &queue, &context) == 0) ibv_ack_cq_events(queue, 1);
  }
  if (watched[2].revents != 0) next_check_ = Time{};
}

void VerbsFabric::wake() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(wake_.get(), &one, sizeof one);
}

}  // namespace rdmc::fabric

#include "dataplane/port/dpdk/device.hpp"

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <thread>

#include "dataplane/port/dpdk/eal.hpp"

namespace rdmc::port::dpdk {
namespace {

/// The MTU of a memif, for which no hardware sets a limit. It is the usual size of jumbo frames.
constexpr std::uint32_t kMemifMtu = 9000;
/// The limits for the number of packet buffers. The buffers suffice for both rings of an AF_XDP socket, for a
/// burst, and for the datagrams that are held for neighbours.
constexpr std::uint32_t kMostBuffers = 8191, kLeastBuffers = 1023;
/// The maximum memory of all buffers together. With large frames there are fewer buffers.
constexpr std::uint32_t kBufferBytes = 80 << 20;
constexpr std::uint32_t kMostDescriptors = 1024;
/// The bytes of a frame that are not part of its IP packet.
constexpr std::uint32_t kFraming = RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;
constexpr unsigned kBufferCache = 256;
/// The extra bytes of each buffer beyond the frame. AF_PACKET requires buffers that are as large as its
/// slots.
constexpr std::uint32_t kSlack = 64;
/// The smallest slot of AF_PACKET, for any frame size.
constexpr std::uint32_t kLeastSlot = 2048;
/// AF_XDP's part of the kernel leaves this space free before a frame. The kernel drops a frame that does not
/// fit into the rest of the buffer.
constexpr std::uint32_t kXdpHeadroom = 256;
/// The time for which the opening of a port waits for the link. A memif waits for its other end, and a
/// network card waits for the other card.
constexpr auto kLinkPatience = std::chrono::seconds(3);
constexpr auto kLinkNap = std::chrono::microseconds(500);

Errc code_of(int error) {
  switch (error < 0 ? -error : error) {
    case EPERM:
    case EACCES: return Errc::permission_denied;
    case EEXIST:
    case EBUSY: return Errc::already_exists;
    case ENOMEM: return Errc::resource_limit;
    case ENODEV:
    case ENOTSUP: return Errc::unsupported;
    default: return Errc::io_error;
  }
}

std::unexpected<Error> device_error(const std::string& what, int error) {
  const std::string complaint = take_eal_complaints();
  return fail(code_of(error), what + ": " + (complaint.empty() ? rte_strerror(-error) : complaint));
}

/// Returns the device arguments, together with additional arguments that allow frames of this size. Arguments
/// that the user has given are not changed.
std::string with_frame_size(const DpdkOptions& options, std::uint32_t frame_bytes) {
  const auto unless_given = [&](std::string_view key, std::uint32_t value) {
    return options.device_argument(key).empty() ? "," + std::string(key) + "=" + std::to_string(value) : "";
  };
  std::string device = options.device;
  if (options.driver_name() == "net_memif") device += unless_given("bsize", std::max(frame_bytes, 2048U));
  if (options.driver_name() == "net_af_packet") {
    // kSlotHeader is the offset of a frame in its slot. The size of a slot is a multiple of 16 bytes. A block
    // must contain whole slots, because DPDK expects no gaps between slots. A block must also contain whole
    // pages. With 256 slots in each block, both conditions are met.
    constexpr std::uint32_t kSlotHeader = 66, kSlotsPerBlock = 256, kBlocks = 2;
    const std::uint32_t slot = std::max((frame_bytes + kSlotHeader + 15) / 16 * 16, kLeastSlot);
    device += unless_given("framesz", slot) + unless_given("blocksz", slot * kSlotsPerBlock) +
              unless_given("framecnt", kSlotsPerBlock * kBlocks);
  }
  return device;
}

}  // namespace

Result<std::unique_ptr<Device>> Device::open(const DpdkOptions& options) {
  std::unique_ptr<Device> device(new Device);
  device->name_ = options.device_name();
  for (const auto step : {&Device::find, &Device::choose_sizes}) {
    if (auto done = (*device.*step)(options); !done) return std::unexpected(done.error());
  }
  if (auto made = device->make_buffers(); !made) return std::unexpected(made.error());
  if (auto configured = device->configure(); !configured) return std::unexpected(configured.error());
  if (auto started = device->start(); !started) return std::unexpected(started.error());
  return device;
}

Result<void> Device::find(const DpdkOptions& options) {
  take_eal_complaints();
  const bool memif = options.driver_name() == "net_memif";
  interface_ = options.device_argument("iface");
  mtu_ = options.mtu;
  if (mtu_ == 0 && memif) mtu_ = kMemifMtu;
  if (options.driver_name() == "net_af_packet" || options.driver_name() == "net_af_xdp") {
    auto kernel = KernelInterfaces::open();
    if (!kernel) return std::unexpected(kernel.error());
    kernel_ = std::move(*kernel);
    const auto interface = kernel_->find(interface_);
    if (!interface) return std::unexpected(interface.error());
    if (mtu_ == 0) mtu_ = interface->mtu;
  }
  if (rte_eth_dev_get_port_by_name(name_.c_str(), &id_) != 0) {
    const std::string arguments =
        options.is_virtual ? with_frame_size(options, kEthernetBytes + mtu_) : options.device;
    const int error = rte_dev_probe(arguments.c_str());
    if (error != 0) return device_error("DPDK cannot make " + name_, error);
    ours_ = options.is_virtual;
    if (rte_eth_dev_get_port_by_name(name_.c_str(), &id_) != 0)
      return fail(Errc::unsupported, name_ + " is not an Ethernet device");
  } else if (options.is_virtual) {
    id_ = RTE_MAX_ETHPORTS;
    return fail(Errc::already_exists, name_ + " is in use in this process");
  }
  take_eal_complaints();  // The complaints are discarded, because the device was created.
  const int error = rte_eth_dev_info_get(id_, &info_);
  if (error != 0) return device_error(name_, error);
  const std::string_view driver(info_.driver_name);
  // These drivers copy a frame before they return, either into a ring buffer that they share with their other
  // end, or into the kernel. A memif does not copy if it lends its own buffers to the other end.
  const bool copies = (memif && options.device_argument("zero-copy") != "yes") || driver == "net_tap" ||
                      driver == "net_af_packet";
  reads_at_once_ = copies && (info_.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
  if (memif) memif_ = options.device_argument("role") == "client" ? Memif::client : Memif::server;
  same_host_only_ = memif || driver == "net_ring";
  may_receive_uncut_ = driver == "net_af_packet";
  return {};
}

Result<void> Device::choose_sizes(const DpdkOptions& options) {
  std::uint16_t set = 0;
  if (mtu_ == 0 && rte_eth_dev_get_mtu(id_, &set) == 0) mtu_ = set;
  // A TAP drops frames that are larger than the maximum that it reports, independently of the interface's
  // MTU.
  if (options.driver_name() == "net_tap")
    info_.max_mtu =
        std::min<std::uint16_t>(info_.max_mtu, static_cast<std::uint16_t>(info_.max_rx_pktlen - kFraming));
  if (options.mtu != 0 && (options.mtu < info_.min_mtu || options.mtu > info_.max_mtu))
    return fail(Errc::invalid_argument, name_ + " carries packets of " + std::to_string(info_.min_mtu) +
                                            " to " + std::to_string(info_.max_mtu) + " bytes, not " +
                                            std::to_string(options.mtu));
  mtu_ = std::clamp<std::uint32_t>(mtu_, info_.min_mtu, info_.max_mtu);
  return {};
}

Result<void> Device::make_buffers() {
  const std::string_view driver(info_.driver_name);
  std::uint32_t frame = static_cast<std::uint32_t>(kEthernetBytes) + mtu_ + kSlack;
  if (driver == "net_af_packet") frame = std::max(frame, kLeastSlot);
  const std::uint32_t room = RTE_PKTMBUF_HEADROOM + frame + (driver == "net_af_xdp" ? kXdpHeadroom : 0);
  if (room > UINT16_MAX) return fail(Errc::invalid_argument, "an MTU too large for DPDK's packet buffers");
  const std::uint32_t count = std::clamp(kBufferBytes / room, kLeastBuffers, kMostBuffers);
  descriptors_ = static_cast<std::uint16_t>(std::min(kMostDescriptors, std::bit_floor((count + 1) / 4)));
  const std::string pool = "rdmc-" + std::to_string(id_);
  buffers_ = rte_pktmbuf_pool_create(pool.c_str(), count, kBufferCache, 0, static_cast<std::uint16_t>(room),
                                     SOCKET_ID_ANY);
  return buffers_ != nullptr ? Result<void>{} : device_error("no memory for packet buffers", -rte_errno);
}

int Device::try_configure(bool wakes) {
  rte_eth_conf conf{};
  // Software devices accept frames as large as a packet buffer. But they report the classic frame size as
  // their maximum and refuse a larger MTU here.
  conf.rxmode.mtu = std::min(mtu_, info_.max_rx_pktlen - kFraming);
  conf.rxmode.mq_mode = RTE_ETH_MQ_RX_NONE;
  if (reads_at_once_) conf.txmode.offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  conf.intr_conf.rxq = wakes ? 1 : 0;
  return rte_eth_dev_configure(id_, 1, 1, &conf);
}

Result<void> Device::configure() {
  wakes_ = try_configure(true) == 0;
  if (!wakes_) {
    if (const int error = try_configure(false); error != 0) return device_error(name_, error);
  }
  std::uint16_t receive = descriptors_, transmit = descriptors_;
  rte_eth_dev_adjust_nb_rx_tx_desc(id_, &receive, &transmit);
  const int no_receive = rte_eth_rx_queue_setup(id_, kQueue, receive, SOCKET_ID_ANY, nullptr, buffers_);
  if (no_receive != 0) return device_error(name_ + ": no receive queue", no_receive);
  const int no_transmit = rte_eth_tx_queue_setup(id_, kQueue, transmit, SOCKET_ID_ANY, nullptr);
  if (no_transmit != 0) return device_error(name_ + ": no transmit queue", no_transmit);
  descriptors_ = receive;
  return {};
}

Result<void> Device::start() {
  if (memif_ == Memif::client) {
    if (auto started = start_client(); !started) return started;
  } else if (const int error = rte_eth_dev_start(id_); error != 0) {
    return device_error(name_ + " does not start", error);
  }
  // Neighbour solicitations are sent to a multicast group, so the device must receive multicast frames. An
  // error is ignored: a device that cannot filter does not need this call.
  rte_eth_allmulticast_enable(id_);
  return {};
}

/// Starts the client's end of a memif. This succeeds only when the server listens, and the two ends are often
/// started at the same time. So the start is tried again for a while. The driver returns -1 for every
/// failure, but leaves the error of the system call in errno.
Result<void> Device::start_client() {
  const auto deadline = std::chrono::steady_clock::now() + kLinkPatience;
  for (;;) {
    take_eal_complaints();  // Discards the same message that each attempt logs.
    errno = 0;
    if (rte_eth_dev_start(id_) == 0) return {};
    const int error = errno;
    const bool nobody_yet = error == ECONNREFUSED || error == ENOENT || error == EAGAIN;
    if (!nobody_yet) return fail_errno(name_ + " does not start: " + take_eal_complaints(), error);
    if (std::chrono::steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(kLinkNap);
  }
  take_eal_complaints();
  return fail(Errc::not_found, name_ + " does not start: nobody listens at the other end of its socket");
}

bool Device::wait_for_link() {
  if (memif_ == Memif::server) return true;  // The client may connect at any later time.
  const auto deadline = std::chrono::steady_clock::now() + kLinkPatience;
  while (!link_is_up()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kLinkNap);
  }
  return true;
}

bool Device::link_is_up() const {
  if (kernel_) {
    const auto interface = kernel_->find(interface_);
    return interface ? interface->linked : interface.error().code != Errc::not_found;
  }
  rte_eth_link link{};
  return rte_eth_link_get_nowait(id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

MacAddress Device::mac() const {
  rte_ether_addr address{};
  rte_eth_macaddr_get(id_, &address);
  MacAddress mac;
  std::ranges::copy(address.addr_bytes, mac.begin());
  return mac;
}

Device::~Device() {
  if (id_ != RTE_MAX_ETHPORTS) {
    // When the other end of a memif disappears, DPDK's interrupt thread frees the shared memory without
    // taking a lock. Therefore the device is closed on that thread.
    same_host_only_ ? on_interrupt_thread([this] { close(); }) : close();
  }
  rte_mempool_free(buffers_);
}

void Device::close() {
  rte_eth_dev_stop(id_);
  if (ours_) {
    rte_dev_remove(info_.device);
  } else {
    rte_eth_dev_close(id_);
  }
}

}  // namespace rdmc::port::dpdk

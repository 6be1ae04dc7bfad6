// One Ethernet device of DPDK, with the pool of its packet buffers. The device is created or found, then
// configured and started. It has one queue in each direction. A Device owns the DPDK device and the pool. Its
// destructor stops the DPDK device, and removes it if it is virtual. Used by one thread at a time.
#pragma once

#include <rte_ethdev.h>
#include <rte_mempool.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/error.hpp"
#include "dataplane/port/dpdk/frames.hpp"
#include "dataplane/port/dpdk/kernel_interface.hpp"
#include "dataplane/port/dpdk/options.hpp"

namespace rdmc::port::dpdk {

class Device {
 public:
  /// The number of the one queue in each direction.
  static constexpr std::uint16_t kQueue = 0;

  /// Opens the device. Precondition: EAL runs. Errors: already_exists (the device is in use), not_found (the
  /// interface does not exist, or the server of a memif did not appear within 3 s), permission_denied,
  /// resource_limit, unsupported, io_error. The message contains DPDK's own error message.
  static Result<std::unique_ptr<Device>> open(const DpdkOptions& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// Waits until the link is up. Returns false if the link is still down after 3 s. For the server of a
  /// memif, returns true at once.
  bool wait_for_link();

  /// Returns true if the link is up, according to the kernel or the device. If the kernel cannot be asked at
  /// the moment, the link counts as up.
  bool link_is_up() const;

  std::uint16_t id() const { return id_; }
  MacAddress mac() const;
  std::uint32_t mtu() const { return mtu_; }  ///< The MTU of IP packets.
  /// The maximum number of frames in the receive queue.
  std::uint16_t descriptors() const { return descriptors_; }
  rte_mempool* buffers() const { return buffers_; }  ///< Each buffer has space for a whole frame.
  /// True if the device can wake a sleeping thread when a frame arrives.
  bool wakes() const { return wakes_; }

  /// True if payload may be attached to a frame instead of copied into it. The device then accepts frames in
  /// several pieces, and has read all of them when its transmit function returns.
  bool reads_at_once() const { return reads_at_once_; }
  /// True if the device connects processes of one machine and cannot be congested.
  bool same_host_only() const { return same_host_only_; }
  bool is_memif() const { return memif_ != Memif::none; }
  /// True if the device taps a network interface whose other end may belong to this kernel (a veth). Such an
  /// interface delivers trains that are not cut into datagrams.
  bool may_receive_uncut() const { return may_receive_uncut_; }

 private:
  Device() = default;
  Result<void> find(const DpdkOptions& options);
  Result<void> choose_sizes(const DpdkOptions& options);
  Result<void> make_buffers();
  Result<void> configure();
  int try_configure(bool wakes);
  Result<void> start();
  Result<void> start_client();
  void close();

  std::string name_, interface_;
  std::uint16_t id_ = RTE_MAX_ETHPORTS;
  rte_eth_dev_info info_{};
  std::uint32_t mtu_ = 0;
  std::uint16_t descriptors_ = 0;
  bool ours_ = false, wakes_ = false, reads_at_once_ = false, same_host_only_ = false,
       may_receive_uncut_ = false;
  std::optional<KernelInterfaces> kernel_;  // Set if the device uses one of the kernel's interfaces.
  enum class Memif : std::uint8_t { none, server, client } memif_ = Memif::none;
  rte_mempool* buffers_ = nullptr;
};

}  // namespace rdmc::port::dpdk

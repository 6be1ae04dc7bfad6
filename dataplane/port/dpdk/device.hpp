// One Ethernet device of DPDK, made or found, configured and started with one or two queues each way, of
// which it transmits through the first, and the pool that its packet buffers come from. Owns both: destroying
// it stops the device and, if it is a virtual one, takes it away. One thread at a time.
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
  /// EAL runs. Errors: already_exists (the device is in use), not_found (its interface, or the server of a
  /// memif after 3 s), permission_denied, resource_limit, unsupported,
  /// io_error; with what DPDK says about it.
  static Result<std::unique_ptr<Device>> open(const DpdkOptions& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// False if it did not come up in 3 s. A memif's server does not wait.
  bool wait_for_link();

  /// As of now: asks the kernel, or the device. What cannot be asked just now is not taken for lost.
  bool link_is_up() const;

  std::uint16_t id() const { return id_; }
  MacAddress mac() const;
  std::uint32_t mtu() const { return mtu_; }  ///< of IP packets
  std::uint16_t receive_queues() const { return receive_queues_; }
  std::uint16_t descriptors() const { return descriptors_; }  ///< of each queue: frames that it holds
  rte_mempool* buffers() const { return buffers_; }           ///< each holds a whole frame
  bool wakes() const { return wakes_; }  ///< it can wake a sleeper when something arrives

  /// Payload may be attached to a frame rather than copied into it: the device takes frames in pieces, and
  /// has read them all by the time its transmit function returns.
  bool reads_at_once() const { return reads_at_once_; }
  /// It connects processes of one machine and cannot be congested.
  bool same_host_only() const { return same_host_only_; }
  bool is_memif() const { return memif_ != Memif::none; }
  /// It taps an interface whose other end may be this kernel's (a veth), which leaves the cutting of trains
  /// to whoever needs them cut.
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
  std::uint16_t receive_queues_ = 1, descriptors_ = 0;
  bool ours_ = false, wakes_ = false, reads_at_once_ = false, same_host_only_ = false,
       may_receive_uncut_ = false;
  std::optional<KernelInterfaces> kernel_;  // of a device that sits on one of its interfaces
  enum class Memif : std::uint8_t { none, server, client } memif_ = Memif::none;
  rte_mempool* buffers_ = nullptr;
};

}  // namespace rdmc::port::dpdk

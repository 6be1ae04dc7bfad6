// A Driver is one method of sending and receiving packets on this host, for example ordinary sockets or DPDK.
// It has a name and opens ports. It also reports whether it can be used on this host. If it cannot be used,
// it reports what the user can do about this. With this interface, other code can choose a driver by its
// name, or choose the best driver that works, and depends on no driver. A Registry owns the drivers. One
// thread at a time may use a driver. An open port no longer needs the driver that opened it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/port/port.hpp"

namespace rdmc::port {

inline constexpr std::uint8_t kMostDscp = 63;

/// Returns the byte of an IP header whose upper six bits are the code point. IPv6 calls this byte the traffic
/// class.
constexpr std::uint8_t traffic_class_of(std::uint8_t dscp) {
  return static_cast<std::uint8_t>(dscp << 2);
}

inline std::unexpected<Error> not_a_dscp(std::uint8_t number) {
  return fail(Errc::invalid_argument, "a DSCP lies between 0 and 63: " + std::to_string(number));
}

/// The parameters of open() and probe(), the same for all drivers.
struct PortRequest {
  /// The address of the shared flow. It must not be a wildcard, because the ICRC covers the address. The only
  /// exception is a request whose `device` names the address. Port number 0 selects any free number.
  Address address;
  /// The device, in the driver's own syntax (dpdk: EAL device arguments). If it is empty, the driver uses the
  /// device that is configured.
  std::string device;
  /// Decides what happens if `device` names another address than `address`. If true, the port has the address
  /// that `device` names. If false, open() fails with invalid_argument.
  bool device_may_differ = false;
  /// The differentiated services code point (RFC 2474) of every packet that is sent, from 0 to kMostDscp. It
  /// selects the queue in the switches. The two ECN bits of the same byte are not affected.
  std::uint8_t dscp = 0;
  /// True if different threads use the port, one after another. Otherwise it belongs to the thread that first
  /// receives or waits.
  bool changes_threads = false;
};

/// The result of probe(): whether a driver can open a port as requested. The texts are for people and contain
/// no newlines.
struct Usability {
  bool usable = false;
  std::string reason;  ///< The reason why the driver is usable, or why it is not.
  /// The command that would make the driver usable. Empty if it is usable already, or if no command helps.
  std::string remedy;
};

class Driver {
 public:
  virtual ~Driver() = default;
  /// The name for the option --fabric, for example "udp". It is equal to PortInfo::driver of the driver's
  /// ports.
  virtual std::string_view name() const noexcept = 0;
  /// Checks the host without changing it. The result is no guarantee: `open` may still fail afterwards.
  virtual Usability probe(const PortRequest& request) = 0;
  /// Returns two requests for ports that can reach each other inside this host. With these ports, a program
  /// can try the driver out. Each call returns a different pair, which no other program knows. The ports, and
  /// whatever they need, do not exist yet.
  virtual std::array<PortRequest, 2> pair_on_this_host() = 0;
  /// Opens a port. Errors: invalid_argument, already_exists (the UDP port number is in use), not_found (not
  /// an address of this host), permission_denied, resource_limit, unsupported, io_error.
  virtual Result<std::unique_ptr<Port>> open(const PortRequest& request) = 0;
};

}  // namespace rdmc::port

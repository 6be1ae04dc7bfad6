// A Driver is one way of getting packets in and out of this host - ordinary sockets, a DPDK port - before a
// port has been opened: it has a name, says whether it could be used here and, if not, what to do about it,
// and opens ports. It exists so that whoever needs a port picks one by name or by what works, knowing none.
// Owned by a Registry; one thread at a time. Ports it opened do not need it any more.
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

/// The byte of an IP header (IPv6: traffic class) whose upper six bits are the code point.
constexpr std::uint8_t traffic_class_of(std::uint8_t dscp) {
  return static_cast<std::uint8_t>(dscp << 2);
}

inline std::unexpected<Error> not_a_dscp(std::uint8_t number) {
  return fail(Errc::invalid_argument, "a DSCP lies between 0 and 63: " + std::to_string(number));
}

/// What every driver is asked for.
struct PortRequest {
  /// Of the shared flow: concrete, never a wildcard, since the ICRC covers it. Port 0: any that is free.
  Address address;
  /// Which device, in the driver's own words (dpdk: EAL device arguments); empty: what it finds configured.
  std::string device;
  /// A device that its words give another address has that one. Otherwise the two must not differ.
  bool device_may_differ = false;
  /// Differentiated services code point of everything that is sent (RFC 2474), 0 … kMostDscp: which queue of
  /// the switches it goes through. The two bits of ECN beside it stay what they are.
  std::uint8_t dscp = 0;
};

/// Whether a driver could open a port as requested. Texts are for people, without newlines.
struct Usability {
  bool usable = false;
  std::string reason;  ///< why it is, or why not
  std::string remedy;  ///< the command that would make it usable; empty if it is or none would
};

class Driver {
 public:
  virtual ~Driver() = default;
  /// What --fabric calls it, e.g. "udp"; the same as PortInfo::driver of its ports.
  virtual std::string_view name() const noexcept = 0;
  /// Looks without leaving a trace. A yes is no promise: `open` may still fail.
  virtual Usability probe(const PortRequest& request) = 0;
  /// What to open for two ports that reach each other without leaving this host: to try the driver out.
  /// Another pair each time, and a secret of the two. Neither the ports nor what they need is there yet.
  virtual std::array<PortRequest, 2> pair_on_this_host() = 0;
  /// Errors: invalid_argument, already_exists (the UDP port is taken), not_found (not an address of this
  /// host), permission_denied, resource_limit, unsupported, io_error.
  virtual Result<std::unique_ptr<Port>> open(const PortRequest& request) = 0;
};

}  // namespace rdmc::port

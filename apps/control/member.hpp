// rdmc_control member: takes part in a group like a program, and prints the events. At intervals it sends
// data to the others and writes into their windows, and it checks for data that must not be visible.
#pragma once

#include <cstdint>
#include <string>

#include "apps/control/store_session.hpp"

namespace rdmc::control_app {

struct MemberOptions {
  std::string group, name;
  control::Identity identity;
  std::string listen = "127.0.0.1:0";
  std::string fabric = "auto";
  bool encrypt = false;        ///< Encrypt the data path.
  std::uint32_t lease_ms = 0;  ///< The term of the requested lease. 0 for no lease.
  std::uint32_t beat_ms = 100;
  bool json = false;
  /// "[ADDR:]PORT" of the metrics, on loopback by default. Empty for no metrics.
  std::string metrics;
};

/// Takes part until `signals` (a signalfd) can be read, or until the others have agreed on a view without
/// this member. After a signal it leaves in order and returns false. If the others removed it, it returns
/// true. Errors: those of Membership::join and of the key file.
Result<bool> take_part(StoreSession& store, const MemberOptions& options, int signals);

}  // namespace rdmc::control_app

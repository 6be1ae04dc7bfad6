// Implements rdmc_control member: takes part in a group like a program, and prints the events. At intervals
// it sends data to the other members and writes data into their windows. It also checks for data that must
// not be visible.
#pragma once

#include <cstdint>
#include <string>

#include "apps/control/store_session.hpp"
#include "apps/program/printer.hpp"

namespace rdmc::control_app {

struct MemberOptions {
  std::string group, name;
  control::Identity identity;
  std::string listen = "127.0.0.1:0";
  std::string fabric = "auto";
  bool encrypt = false;        ///< If true, encrypt the data path.
  std::uint32_t lease_ms = 0;  ///< The term of the requested lease in milliseconds. 0 means no lease.
  std::uint32_t beat_ms = 100;
  bool json = false;
  /// The address of the metrics as "[ADDR:]PORT", on loopback by default. Empty for no metrics.
  std::string metrics;
};

/// Takes part until `signals` (a signalfd) can be read, or until the others have agreed on a view without
/// this member. After a signal, this member leaves in order and the function returns false. If the others
/// have removed this member, the function returns true. Errors: those of Membership::join and of the key
/// file.
Result<bool> take_part(StoreSession& store, const MemberOptions& options, Printer& printer, int signals);

}  // namespace rdmc::control_app

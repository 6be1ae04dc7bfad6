// rdmc_control member: takes part in a group as a program would, and prints what becomes of it. It says and
// writes something to the others now and then, and looks for what nobody may have said or written.
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
  bool encrypt = false;        ///< the data path
  std::uint32_t lease_ms = 0;  ///< the term of the lease that it asks for; 0: none
  std::uint32_t beat_ms = 100;
  bool json = false;
  std::string metrics;  ///< "[ADDR:]PORT" where they are served; empty: nowhere. Loopback by default
};

/// Until `signals` (a signalfd) can be read - then it leaves in order - or the others have agreed on a view
/// without it: true. Errors: those of Membership::join and of the key's file.
Result<bool> take_part(StoreSession& store, const MemberOptions& options, int signals);

}  // namespace rdmc::control_app

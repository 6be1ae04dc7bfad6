// Sends messages to systemd, if it started this process (sd_notify(3)). The messages are datagrams to the
// socket that NOTIFY_SOCKET names. The functions have no state, and any thread may call them.
#pragma once

#include <optional>
#include <string_view>

#include "dataplane/base/types.hpp"

namespace rdmc::control_app {

/// Sends "READY=1", "STOPPING=1" or "WATCHDOG=1". Has no effect if there is no service manager.
void notify(std::string_view state);

/// Returns the time within which the manager expects the next WATCHDOG=1. After that time the manager kills
/// this process. Returns nullopt if there is no watchdog.
std::optional<Duration> watchdog_limit();

}  // namespace rdmc::control_app

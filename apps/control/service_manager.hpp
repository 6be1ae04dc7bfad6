// Messages to systemd, if it started this process (sd_notify(3)): datagrams to the socket that NOTIFY_SOCKET
// names. Stateless; any thread.
#pragma once

#include <optional>
#include <string_view>

#include "dataplane/base/types.hpp"

namespace rdmc::control_app {

/// Sends "READY=1", "STOPPING=1" or "WATCHDOG=1". No effect without a service manager.
void notify(std::string_view state);

/// The time within which the manager expects the next WATCHDOG=1. After that time it kills this process.
/// nullopt if there is no watchdog.
std::optional<Duration> watchdog_limit();

}  // namespace rdmc::control_app

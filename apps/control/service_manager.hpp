// What systemd is told, when it has started us (sd_notify(3)): datagrams to the socket that NOTIFY_SOCKET
// names. Stateless; any thread.
#pragma once

#include <optional>
#include <string_view>

#include "dataplane/base/types.hpp"

namespace rdmc::control_app {

/// "READY=1", "STOPPING=1", "WATCHDOG=1". Nothing without a manager.
void notify(std::string_view state);

/// In which time it wants WATCHDOG=1, or kills us. None: it does not.
std::optional<Duration> watchdog_limit();

}  // namespace rdmc::control_app

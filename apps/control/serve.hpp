// rdmc_control serve: a node of the store with its metrics, run by a service manager.
#pragma once

#include <string>

#include "apps/control/store_session.hpp"

namespace rdmc::control_app {

struct ServeOptions {
  control::Identity identity;
  std::string directory;  ///< Empty if the node keeps everything in memory.
  std::string listen;     ///< Empty for the node's address in `nodes`, or for kAlone.
  std::string nodes;      ///< Empty if the node is alone.
  std::size_t self = 0;
  bool json = false;
  std::string metrics;  ///< See MemberOptions.
};

inline constexpr const char* kAlone = "127.0.0.1:7701";

/// Serves until `signals` (a signalfd) can be read, and then ends the process with exit status 0. Returns
/// only on an error. Errors when it cannot start: invalid_argument, and those of StoreNode::start and of the
/// key file. Errors when the node has ended its part in the store: see NodeStatus::ending.
Error serve(const ServeOptions& options, int signals);

}  // namespace rdmc::control_app

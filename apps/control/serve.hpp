// Implements rdmc_control serve: a node of the store with its metrics, run by a service manager.
#pragma once

#include <string>

#include "apps/control/store_session.hpp"
#include "apps/program/printer.hpp"

namespace rdmc::control_app {

struct ServeOptions {
  control::Identity identity;
  std::string directory;  ///< Empty if the node keeps everything in memory.
  std::string listen;     ///< Empty means the node's address in `nodes`, or kAlone if the node is alone.
  std::string nodes;      ///< Empty if the node is alone.
  std::size_t self = 0;
  bool json = false;
  std::string metrics;  ///< See MemberOptions.
};

inline constexpr const char* kAlone = "127.0.0.1:7701";

/// Runs the node until `signals` (a signalfd) can be read, and then ends the process with exit status 0.
/// Returns only on an error. If the node cannot start, the errors are invalid_argument, and those of
/// StoreNode::start and of the key file. If the node has ended its part in the store, the error is
/// NodeStatus::ending.
Error serve(const ServeOptions& options, Printer& printer, int signals);

}  // namespace rdmc::control_app

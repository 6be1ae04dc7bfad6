// rdmc_control serve: a node of the store, with its metrics, under a service manager's eyes.
#pragma once

#include <string>

#include "apps/control/store_session.hpp"

namespace rdmc::control_app {

struct ServeOptions {
  control::Identity identity;
  std::string directory;  ///< empty: it keeps everything in memory
  std::string listen;     ///< empty: at its address among `nodes`, or at kAlone
  std::string nodes;      ///< empty: it is alone
  std::size_t self = 0;
  bool json = false;
  std::string metrics;  ///< as MemberOptions have it
};

inline constexpr const char* kAlone = "127.0.0.1:7701";

/// Serves until `signals` (a signalfd) can be read, and ends the process with exit status 0. Returns when it
/// cannot begin: invalid_argument, and the errors of StoreNode::start and of the key's file; or when the node
/// takes part in nothing any more: as NodeOptions::ended says.
Error serve(const ServeOptions& options, int signals);

}  // namespace rdmc::control_app

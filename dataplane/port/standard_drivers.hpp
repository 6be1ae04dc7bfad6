// The drivers that the programs of this project choose from. No other file names them all.
#pragma once

#include "dataplane/port/registry.hpp"

namespace rdmc::port {

/// Returns a new registry for each caller. Nothing is loaded or opened until a port is requested.
Registry standard_drivers();

}  // namespace rdmc::port

// The drivers that the product's programs choose from: the one place that knows them all.
#pragma once

#include "dataplane/port/registry.hpp"

namespace rdmc::port {

/// A registry of its own for each caller; nothing is loaded or opened until a port is asked for.
Registry standard_drivers();

}  // namespace rdmc::port

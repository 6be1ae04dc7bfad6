// The metrics of a member of a group, and of a node of the store, as text for Prometheus. The values of one
// scrape are read at the same time. Called on the control loop's thread.
#pragma once

#include <string>

#include "apps/control/pulse.hpp"
#include "controlplane/connect/identity_watch.hpp"
#include "controlplane/membership/membership.hpp"

namespace rdmc::control_app {

// The text exposition format, version 0.0.4.

/// Every series has the label `group`.
std::string exposition(const std::string& group, const membership::Membership& membership,
                       const control::IdentityWatch& identity);
/// Every series has the label `node`, which is the node's index.
std::string exposition(std::size_t node, const Pulse::Latest& pulse, const control::IdentityWatch& identity);

}  // namespace rdmc::control_app

// What a process knows of its group, and what a node of the store knows of itself, for Prometheus: the text
// of a scrape, made of one look. The loop's thread.
#pragma once

#include <string>

#include "apps/control/pulse.hpp"
#include "controlplane/connect/identity_watch.hpp"
#include "controlplane/membership/membership.hpp"

namespace rdmc::control_app {

// The text exposition format, version 0.0.4.

/// Every series has the label group.
std::string exposition(const std::string& group, const membership::Membership& membership,
                       const control::IdentityWatch& identity);
/// Every series has the label node, which of the store's it is.
std::string exposition(std::size_t node, const Pulse::Latest& pulse, const control::IdentityWatch& identity);

}  // namespace rdmc::control_app

// What a process knows of its group, for Prometheus: the text of a scrape, made of one look at a membership.
// The loop's thread.
#pragma once

#include <string>

#include "controlplane/membership/membership.hpp"

namespace rdmc::control_app {

/// The text exposition format, version 0.0.4. Every series has the label group.
std::string exposition(const std::string& group, const membership::Membership& membership);

}  // namespace rdmc::control_app

// What rdmc_doctor finds out about the fabrics of this host: which can be used, what would make the others
// usable, how fast each is, and which one "auto" takes and why.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/tools/self_test.hpp"
#include "dataplane/fabric/standard_fabrics.hpp"
#include "dataplane/port/registry.hpp"

namespace rdmc::tools {

struct Finding {
  std::string fabric;
  port::Usability usability;              ///< for the request
  std::optional<Result<SelfTest>> tried;  ///< nothing when it was not tried: no pair can be made here
  std::string not_tried;                  ///< … and why
};

struct Diagnosis {
  std::vector<Finding> findings;  ///< best fabric first: a NIC, then the ports as in the registry
  Result<std::string> chosen;     ///< by "auto" for the request …
  std::string why;                ///< … and its reason
};

/// `request`: what a fabric is wanted for. Each self-test takes `test_time`, on ports of its own on this
/// host.
Diagnosis diagnose(port::Registry& registry, const port::PortRequest& request, Duration test_time);

}  // namespace rdmc::tools

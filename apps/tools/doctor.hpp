// The findings of rdmc_doctor about the fabrics of this host: which fabrics can be used, which commands make
// the others usable, how fast each fabric is, and which fabric "auto" chooses and why.
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
  port::Usability usability;  ///< States whether the fabric can be used for the request.
  /// The self-test, or nullopt if this host cannot make a pair of ports for it.
  std::optional<Result<SelfTest>> tried;
  std::string not_tried;  ///< The reason why there was no self-test.
};

struct Diagnosis {
  /// The findings, beginning with the best fabric: shm, a NIC, then the ports in the order of the registry.
  std::vector<Finding> findings;
  Result<std::string> chosen;  ///< The fabric that "auto" chooses for the request.
  std::string why;             ///< The reason for that choice.
};

/// Examines all fabrics for a use as described by `request`. Each self-test takes `test_time`, on ports of
/// its own on this host.
Diagnosis diagnose(port::Registry& registry, const port::PortRequest& request, Duration test_time);

}  // namespace rdmc::tools

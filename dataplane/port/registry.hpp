// The drivers that a program can choose from. The best one is first and the fallback is last. The registry
// also makes the choice and reports the reason for it. It is a value that owns its drivers, and two
// registries in one process are independent of each other. One thread at a time may use a registry. Ports may
// outlive the registry.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/base/error.hpp"
#include "dataplane/port/driver.hpp"

namespace rdmc::port {

/// The name that selects the best driver that works.
inline constexpr std::string_view kAutomatic = "auto";

struct OpenedPort {
  std::unique_ptr<Port> port;
  /// Explains why this driver was chosen and no better one, and lists the features that it lacks
  /// (PortInfo::notes). The text is for people and contains no newlines.
  std::string reason;
};

class Registry {
 public:
  /// `fallback` stays the last driver, even when other drivers are added.
  explicit Registry(std::unique_ptr<Driver> fallback);

  /// Registers a driver after those that were added before and before the fallback. Its name must be new and
  /// must not be "auto".
  void add(std::unique_ptr<Driver> driver);

  const std::vector<std::unique_ptr<Driver>>& drivers() const { return drivers_; }
  /// The names that `open` accepts: kAutomatic, then the drivers, best first.
  std::vector<std::string> names() const;

  /// Opens a port with the driver named `wanted`. For kAutomatic, opens it with the best driver that can.
  /// Errors: not_found (there is no such driver; the message names those that exist), unsupported (the driver
  /// cannot be used here; the message gives the reason and a remedy), otherwise the errors of the driver. For
  /// kAutomatic, the errors of the fallback.
  Result<OpenedPort> open(std::string_view wanted, const PortRequest& request);

 private:
  Result<OpenedPort> open_best(const PortRequest& request);

  std::vector<std::unique_ptr<Driver>> drivers_;
};

}  // namespace rdmc::port

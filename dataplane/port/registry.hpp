// The drivers that a program can choose from. The best driver is first and the fallback is last. The registry
// can also choose a driver and give the reason for the choice. It is a value that owns its drivers, and two
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
  /// Explains why this driver was chosen and not a better one, and lists the features that the port lacks
  /// (PortInfo::notes). The text is for people and contains no newlines.
  std::string reason;
};

class Registry {
 public:
  /// `fallback` stays the last driver, even when other drivers are added.
  explicit Registry(std::unique_ptr<Driver> fallback);

  /// Registers a driver. Its place in the order is after the drivers that were added before, and before the
  /// fallback. Its name must be new and must not be "auto".
  void add(std::unique_ptr<Driver> driver);

  const std::vector<std::unique_ptr<Driver>>& drivers() const { return drivers_; }
  /// Returns the names that `open` accepts: kAutomatic, then the drivers, best first.
  std::vector<std::string> names() const;

  /// Opens a port with the driver named `wanted`. For kAutomatic, opens the port with the best driver that
  /// can open it. Errors: not_found (there is no such driver; the message names the drivers that exist),
  /// unsupported (the driver cannot be used here; the message gives the reason and a remedy), and the errors
  /// of the driver. For kAutomatic, the errors are those of the fallback.
  Result<OpenedPort> open(std::string_view wanted, const PortRequest& request);

 private:
  Result<OpenedPort> open_best(const PortRequest& request);

  std::vector<std::unique_ptr<Driver>> drivers_;
};

}  // namespace rdmc::port

// The drivers that a program may choose from, best first and the fallback last, and the choice itself with
// its reason. A value that owns its drivers: two registries in one process know nothing of each other. One
// thread at a time. Ports outlive it if they like.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/base/error.hpp"
#include "dataplane/port/driver.hpp"

namespace rdmc::port {

/// Asks for the best driver that works.
inline constexpr std::string_view kAutomatic = "auto";

struct OpenedPort {
  std::unique_ptr<Port> port;
  /// Why this driver and no better one, and what it does without (PortInfo::notes); for people, without
  /// newlines.
  std::string reason;
};

class Registry {
 public:
  /// `fallback` comes last, whatever is added.
  explicit Registry(std::unique_ptr<Driver> fallback);

  /// Registers a driver: behind those added before, ahead of the fallback. Its name is new and not "auto".
  void add(std::unique_ptr<Driver> driver);

  /// All drivers, best first.
  const std::vector<std::unique_ptr<Driver>>& drivers() const { return drivers_; }
  /// What `open` may be asked for: kAutomatic, then the drivers, best first.
  std::vector<std::string> names() const;

  /// Opens a port with the driver named `wanted`, or for kAutomatic with the best that can.
  /// Errors: not_found (no such driver; names those there are), unsupported (it cannot be used here; says why
  /// and what would help), else those of the driver; for kAutomatic those of the fallback.
  Result<OpenedPort> open(std::string_view wanted, const PortRequest& request);

 private:
  Result<OpenedPort> open_best(const PortRequest& request);

  std::vector<std::unique_ptr<Driver>> drivers_;
};

}  // namespace rdmc::port

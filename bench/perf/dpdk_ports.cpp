#include "bench/perf/dpdk_ports.hpp"

#include <algorithm>

#include "dataplane/port/standard_drivers.hpp"

namespace rdmc::perf {
namespace {

/// The size of IP packets with 4 KB of payload and rdmc's largest headers.
constexpr std::uint32_t kMtuOf4096 = 4224;

}  // namespace

std::vector<std::string> memif_devices(const Options& options) {
  const std::uint32_t mtu = options.path_mtu == 0 ? kMtuOf4096 : options.path_mtu + kMtuOf4096 - 4096;
  const auto registry = port::standard_drivers();
  const auto& dpdk =
      *std::ranges::find(registry.drivers(), "dpdk", [](const auto& driver) { return driver->name(); });
  std::vector<std::string> devices;
  for (const auto& request : dpdk->pair_on_this_host()) {
    if (!request.device.empty()) devices.push_back(request.device + " mtu=" + std::to_string(mtu));
  }
  return devices;
}

}  // namespace rdmc::perf

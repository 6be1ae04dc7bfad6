#include "bench/perf/dpdk_ports.hpp"

#include <unistd.h>

#include <algorithm>

#include "dataplane/port/standard_drivers.hpp"

namespace rdmc::perf {
namespace {

/// IP packets that carry 4 KB of payload under our largest headers.
constexpr std::uint32_t kMtuOf4096 = 4224;

}  // namespace

port::PortRequest dpdk_request(const Options& options, std::uint32_t rank) {
  if (rank < options.devices.size()) return {.address = {}, .device = options.devices[rank]};
  const std::uint32_t mtu = options.path_mtu == 0 ? kMtuOf4096 : options.path_mtu + kMtuOf4096 - 4096;
  const auto registry = port::standard_drivers();
  const auto& dpdk =
      *std::ranges::find(registry.drivers(), "dpdk", [](const auto& driver) { return driver->name(); });
  auto request = dpdk->pair_on_this_host("rdmc_perf-" + std::to_string(getppid())).at(rank);
  if (!request.device.empty()) request.device += " mtu=" + std::to_string(mtu);
  return request;
}

}  // namespace rdmc::perf

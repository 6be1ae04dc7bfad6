#include "bench/perf/dpdk_ports.hpp"

#include <unistd.h>

#include <fstream>

namespace rdmc::perf {
namespace {

/// IP packets that carry 4 KB of payload under our largest headers.
constexpr std::uint32_t kMemifMtu = 4224;
/// Free hugepages that both members take together.
constexpr std::uint64_t kPagesOfTwoPorts = 128;

bool hugepages_free() {
  std::uint64_t pages = 0;
  std::ifstream("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages") >> pages;
  return pages >= kPagesOfTwoPorts;
}

}  // namespace

port::PortRequest dpdk_request(const Options& options, std::uint32_t rank) {
  if (rank < options.devices.size()) return {.address = {}, .device = options.devices[rank]};
  const std::uint32_t mtu = options.path_mtu == 0 ? kMemifMtu : options.path_mtu + kMemifMtu - 4096;
  // The receiver lends its packet buffers, so that the sender writes into them: one copy between the two. An
  // abstract socket, named after the run, leaves nothing behind.
  std::string device = "vdev=net_memif0,socket=/rdmc_perf-" + std::to_string(getppid());
  device += rank == 0 ? ",role=server" : ",role=client,zero-copy=yes";
  device += " address=192.0.2." + std::to_string(rank + 1) + "/24 mtu=" + std::to_string(mtu);
  if (!hugepages_free()) device += " huge=no";
  return {.address = {}, .device = device};
}

}  // namespace rdmc::perf

// The module librdmc_dpdk.so (see module_driver.hpp). Its driver makes ports on DPDK devices.
#include <sys/random.h>

#include <memory>

#include "dataplane/base/address_kind.hpp"
#include "dataplane/port/dpdk/dpdk_port.hpp"
#include "dataplane/port/dpdk/eal.hpp"
#include "dataplane/port/dpdk/host_environment.hpp"
#include "dataplane/port/driver.hpp"

namespace rdmc::port::dpdk {
namespace {

/// Returns the address of the port, from the request or from the options.
Result<Address> address_of(const PortRequest& request, const DpdkOptions& options) {
  Address address = request.address;
  if (options.address) {
    const bool differs = is_host_address(address) &&
                         (options.address->ipv6 != address.ipv6 || options.address->bytes != address.bytes);
    if (differs && !request.device_may_differ)
      return fail(Errc::invalid_argument, "the port is to have the address " + host_string(address) +
                                              ", but its options say " + host_string(*options.address));
    address = *options.address;
    address.port = request.address.port;
  }
  if (!is_host_address(address))
    return fail(Errc::invalid_argument, "a DPDK port needs an address of its own: address=ADDR/BITS");
  return address;
}

std::uint32_t random_number() {
  std::uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}

/// Returns 64 random bits in a form that fits device arguments.
std::string random_word() {
  return std::to_string(std::uint64_t{random_number()} << 32 | random_number());
}

class DpdkDriver final : public Driver {
 public:
  std::string_view name() const noexcept override { return "dpdk"; }

  Usability probe(const PortRequest& request) override {
    const auto options = parse_options(request.device);
    if (!options) return {.reason = options.error().what};
    return judge(*options, inspect_host(*options));
  }

  /// Returns requests for the two ends of a memif. Frames are copied into its ring buffer and out of it. A
  /// client could instead lend its packet buffers, so that the server writes into these buffers
  /// (zero-copy=yes). But the buffers are scattered over the pool, while the ring buffer is one range of
  /// memory that stays in the cache. Through the ring buffer, large packets are faster by a third
  /// (docs/benchmarks.md).
  ///
  /// An abstract socket leaves no file behind. Its name is random, so that other programs cannot guess the
  /// name in advance. A program that reads the name later (in /proc/net/unix) does not know the secret.
  std::array<PortRequest, 2> pair_on_this_host() override {
    const bool huge = eal_has_hugepages().value_or(inspect_host({}).free_hugepages >= 2 * kHugepagesWanted);
    const std::string socket = random_word(), secret = random_word();
    const auto device = [&](const std::string& end, const std::string& role) {
      return PortRequest{.address = {},
                         .device = "vdev=net_memif" + end + ",socket=/rdmc-" + socket + ",secret=" + secret +
                                   ",role=" + role + " address=192.0.2." + end + "/24" +
                                   (huge ? "" : " huge=no")};
    };
    return {device("1", "server"), device("2", "client")};
  }

  Result<std::unique_ptr<Port>> open(const PortRequest& request) override {
    const auto options = parse_options(request.device);
    if (!options) return std::unexpected(options.error());
    if (request.dscp > kMostDscp) return not_a_dscp(request.dscp);
    const auto address = address_of(request, *options);
    if (!address) return std::unexpected(address.error());
    if (auto started = start_eal(*options); !started) return std::unexpected(started.error());
    auto device = Device::open(*options);
    if (!device) return std::unexpected(device.error());
    return DpdkPort::open(std::move(*device),
                          {.address = *address, .traffic_class = traffic_class_of(request.dscp)}, *options,
                          SourcePorts(random_number()));
  }
};

}  // namespace
}  // namespace rdmc::port::dpdk

extern "C" __attribute__((visibility("default"))) const char* rdmc_module_version() {
  return RDMC_VERSION;
}

extern "C" __attribute__((visibility("default"))) rdmc::port::Driver* rdmc_make_port_driver() {
  return std::make_unique<rdmc::port::dpdk::DpdkDriver>().release();
}

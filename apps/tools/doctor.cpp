#include "apps/tools/doctor.hpp"

#include "apps/tools/remedies.hpp"
#include "controlplane/auth/random.hpp"
#include "dataplane/base/address_kind.hpp"
#include "dataplane/fabric/host_identity.hpp"

namespace rdmc::tools {
namespace {

/// The name of the driver that needs a device (dataplane/port/standard_drivers.cpp).
constexpr std::string_view kDpdk = "dpdk";

Result<fabric::SoftwareFabricOptions> software_options() {
  const auto random = control::SystemRandom::open();
  if (!random) return std::unexpected(random.error());
  return fabric::SoftwareFabricOptions{.entropy = [random = *random] { return random.next32(); },
                                       .host_id = fabric::host_identity()};
}

Result<SelfTest> try_out(const std::function<Result<fabric::OpenedFabric>(std::size_t side)>& open,
                         Duration test_time) {
  auto receiving = open(0);
  if (!receiving) return std::unexpected(receiving.error());
  auto sending = open(1);
  if (!sending) return std::unexpected(sending.error());
  return run_self_test(std::move(*sending), std::move(*receiving), test_time);
}

/// Returns the request for the udp driver. If the request names a device in the form of another driver, it
/// may have no address.
port::PortRequest without_device(const port::PortRequest& request) {
  return {.address = is_wildcard(request.address) ? Address::ipv4(127, 0, 0, 1, request.address.port)
                                                  : request.address,
          .device = {},
          .dscp = request.dscp};
}

/// Finds out whether the driver can be used. A driver that a probe finds usable may still fail to open a
/// port, so this function opens one. If "auto" has opened a port of this driver (`opened`), it is known that
/// the driver can be used.
port::Usability judge(port::Driver& driver, const port::PortRequest& request,
                      const fabric::OpenedFabric* opened, const Machine& machine) {
  port::Usability usability = with_right_limit(driver.probe(request), machine);
  const bool shown = opened != nullptr && opened->port && opened->port->info().driver == driver.name();
  if (!usability.usable || shown) return usability;
  const auto port = driver.open(request);
  if (port) return usability;
  return {.reason = port.error().what,
          .remedy = request.device.empty() ? remedy_for_udp(port.error(), machine)
                                           : remedy_for_device(port.error(), request.device, machine)};
}

Finding examine(port::Driver& driver, const port::Usability& usability,
                const fabric::SoftwareFabricOptions& software, Duration test_time) {
  Finding finding{.fabric = std::string(driver.name()), .usability = usability, .tried = {}, .not_tried = {}};
  const auto pair = driver.pair_on_this_host();
  const auto testable = driver.probe(pair[1]);
  if (!testable.usable) {
    finding.not_tried = testable.reason;
    return finding;
  }
  finding.tried = try_out(
      [&](std::size_t side) -> Result<fabric::OpenedFabric> {
        auto port = driver.open(pair.at(side));
        if (!port) return std::unexpected(port.error());
        return fabric::on_port(std::move(*port), software);
      },
      test_time);
  return finding;
}

/// Examines a provider that needs no port. A NIC and shared memory reach themselves, so both sides open the
/// same request.
Finding examine(std::string_view provider, const Result<std::string>& probed, const std::string& remedy,
                const port::PortRequest& request, const fabric::SoftwareFabricOptions& software,
                Duration test_time) {
  Finding finding{.fabric = std::string(provider), .usability = {}, .tried = {}, .not_tried = {}};
  if (probed)
    finding.usability = {.usable = true, .reason = *probed, .remedy = {}};
  else
    finding.usability = {.reason = probed.error().what, .remedy = remedy};
  if (finding.usability.usable) {
    finding.tried =
        try_out([&](std::size_t) { return fabric::open_fabric(provider, request, software); }, test_time);
  } else {
    finding.not_tried = finding.usability.reason;
  }
  return finding;
}

/// Adds a remedy if the request names no device, or names a device in the form of another driver. In these
/// cases the driver knows only that the device is missing. A probe with a trial device shows whether the
/// driver can be used at all.
port::Usability with_remedy(port::Usability usability, port::Driver& dpdk, const port::PortRequest& request,
                            const Machine& machine) {
  if (!request.device.empty() && !usability.remedy.empty()) return usability;
  auto tried = dpdk.probe({.address = request.address, .device = dpdk_device_for_a_try(machine)});
  const bool only_privilege = tried.remedy.starts_with("sudo setcap");
  if (!tried.usable && !only_privilege) return tried;
  usability.remedy = remedy_for_dpdk(machine);
  return usability;
}

}  // namespace

Diagnosis diagnose(port::Registry& registry, const port::PortRequest& request, Duration test_time) {
  Diagnosis diagnosis;
  const auto software = software_options();
  if (!software) {
    diagnosis.chosen = std::unexpected(software.error());
    return diagnosis;
  }
  const Machine machine = look_at_machine();
  const auto opened = fabric::open_fabric(registry, port::kAutomatic, request, *software);
  const auto shm = fabric::probe_shm(*software);
  diagnosis.findings.push_back(examine(fabric::kShm, shm, shm ? "" : remedy_for_shm(shm.error(), machine),
                                       request, *software, test_time));
  const auto verbs = fabric::probe_verbs(request.address);
  diagnosis.findings.push_back(examine(fabric::kVerbs, verbs,
                                       verbs ? "" : remedy_for_verbs(verbs.error(), request.address, machine),
                                       request, *software, test_time));
  const fabric::OpenedFabric* const shown = opened ? &*opened : nullptr;
  for (const auto& driver : registry.drivers()) {
    const bool fallback = driver == registry.drivers().back();
    const auto usability = judge(*driver, fallback ? without_device(request) : request, shown, machine);
    Finding finding = examine(*driver, usability, *software, test_time);
    if (finding.fabric == kDpdk && !finding.usability.usable)
      finding.usability = with_remedy(std::move(finding.usability), *driver, request, machine);
    diagnosis.findings.push_back(std::move(finding));
  }
  if (!opened) {
    diagnosis.chosen = std::unexpected(opened.error());
    return diagnosis;
  }
  diagnosis.chosen = opened->name;
  diagnosis.why = opened->reason;
  return diagnosis;
}

}  // namespace rdmc::tools

#include "apps/tools/doctor.hpp"

#include "controlplane/auth/random.hpp"
#include "dataplane/fabric/host_identity.hpp"

namespace rdmc::tools {
namespace {

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

Finding examine(port::Driver& driver, const port::PortRequest& request,
                const fabric::SoftwareFabricOptions& software, Duration test_time) {
  Finding finding{
      .fabric = std::string(driver.name()), .usability = driver.probe(request), .tried = {}, .not_tried = {}};
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

/// A provider that needs no port: a NIC reaches itself, and so does memory, so both sides ask for the same.
Finding examine(std::string_view provider, const port::Usability& usability, const port::PortRequest& request,
                const fabric::SoftwareFabricOptions& software, Duration test_time) {
  Finding finding{.fabric = std::string(provider), .usability = usability, .tried = {}, .not_tried = {}};
  if (finding.usability.usable) {
    finding.tried =
        try_out([&](std::size_t) { return fabric::open_fabric(provider, request, software); }, test_time);
  } else {
    finding.not_tried = finding.usability.reason;
  }
  return finding;
}

}  // namespace

Diagnosis diagnose(port::Registry& registry, const port::PortRequest& request, Duration test_time) {
  Diagnosis diagnosis;
  const auto software = software_options();
  if (!software) {
    diagnosis.chosen = std::unexpected(software.error());
    return diagnosis;
  }
  diagnosis.findings.push_back(
      examine(fabric::kShm, fabric::probe_shm(*software), request, *software, test_time));
  diagnosis.findings.push_back(
      examine(fabric::kVerbs, fabric::probe_verbs(request.address), request, *software, test_time));
  for (const auto& driver : registry.drivers())
    diagnosis.findings.push_back(examine(*driver, request, *software, test_time));
  auto opened = fabric::open_fabric(registry, port::kAutomatic, request, *software);
  if (!opened) {
    diagnosis.chosen = std::unexpected(opened.error());
    return diagnosis;
  }
  diagnosis.chosen = opened->name;
  diagnosis.why = opened->reason;
  return diagnosis;
}

}  // namespace rdmc::tools

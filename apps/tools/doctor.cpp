#include "apps/tools/doctor.hpp"

#include <unistd.h>

namespace rdmc::tools {
namespace {

Finding examine(port::Driver& driver, const port::PortRequest& request, Duration test_time) {
  Finding finding{
      .fabric = std::string(driver.name()), .usability = driver.probe(request), .tried = {}, .not_tried = {}};
  const auto pair = driver.pair_on_this_host("rdmc_doctor-" + std::to_string(getpid()));
  const auto testable = driver.probe(pair[1]);
  if (testable.usable)
    finding.tried = run_self_test(driver, pair, test_time);
  else
    finding.not_tried = testable.reason;
  return finding;
}

}  // namespace

Diagnosis diagnose(port::Registry& registry, const port::PortRequest& request, Duration test_time) {
  Diagnosis diagnosis;
  for (const auto& driver : registry.drivers())
    diagnosis.findings.push_back(examine(*driver, request, test_time));
  auto opened = registry.open(port::kAutomatic, request);
  if (!opened) {
    diagnosis.chosen = std::unexpected(opened.error());
    return diagnosis;
  }
  diagnosis.chosen = opened->port->info().driver;
  diagnosis.why = opened->reason;
  return diagnosis;
}

}  // namespace rdmc::tools

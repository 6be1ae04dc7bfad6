// rdmc_doctor: reports which fabrics this host has, how fast they are, and how to make the others usable.
// Exit status: 0 if "auto" finds a fabric and no self-test failed, 1 for wrong usage, 2 otherwise.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "apps/program/output.hpp"
#include "apps/tools/doctor.hpp"
#include "apps/units/option_values.hpp"
#include "dataplane/port/standard_drivers.hpp"

namespace {

using namespace rdmc;

/// Describes the packets of a self-test. Shared memory has no packets, so the text is empty.
std::string packets_of(const tools::SelfTest& test) {
  if (test.path_mtu == 0) return "";
  return fmt::format(", path MTU {}, ICRC {}", test.path_mtu, test.icrc ? "on" : "off");
}

void print(const tools::Finding& finding) {
  const auto& [usable, reason, remedy] = finding.usability;
  fmt::print("{}: {}: {}\n", finding.fabric, usable ? "usable" : "not usable", reason);
  if (!remedy.empty()) fmt::print("  to make it usable: {}\n", remedy);
  if (!finding.tried) {
    fmt::print("  not tried: {}\n", finding.not_tried);
  } else if (!*finding.tried) {
    fmt::print("  self-test failed: {}\n", finding.tried->error().what);
  } else {
    const tools::SelfTest& test = **finding.tried;
    fmt::print("  self-test on this host: {:.1f} Gb/s in {:.1f} s{}\n", test.gigabits_per_second(),
               test.seconds, packets_of(test));
  }
}

Json object_of(const tools::Finding& finding) {
  Json object{{"fabric", finding.fabric},
              {"usable", finding.usability.usable},
              {"reason", finding.usability.reason},
              {"remedy", finding.usability.remedy}};
  if (!finding.tried)
    object["not_tried"] = finding.not_tried;
  else if (!*finding.tried)
    object["self_test_error"] = finding.tried->error().what;
  else
    object["self_test"] = {{"goodput_gbps", (**finding.tried).gigabits_per_second()},
                           {"seconds", (**finding.tried).seconds},
                           {"path_mtu", (**finding.tried).path_mtu},
                           {"icrc", (**finding.tried).icrc}};
  return object;
}

bool is_well(const tools::Diagnosis& diagnosis) {
  return diagnosis.chosen && std::ranges::all_of(diagnosis.findings, [&](const tools::Finding& finding) {
           return !finding.tried || *finding.tried;
         });
}

void print(const tools::Diagnosis& diagnosis, bool json) {
  const std::string choice = diagnosis.chosen ? *diagnosis.chosen : "";
  const std::string why = diagnosis.chosen ? diagnosis.why : diagnosis.chosen.error().what;
  if (json) {
    Json object{{"fabrics", Json::array()}, {"auto", choice}, {"why", why}};
    for (const auto& finding : diagnosis.findings) object["fabrics"].push_back(object_of(finding));
    return print_json(object);
  }
  for (const auto& finding : diagnosis.findings) print(finding);
  fmt::print("auto {}: {}\n", diagnosis.chosen ? "takes " + choice : "finds none", why);
}

}  // namespace

int main(int argc, char** argv) {
  std::string address_text, device;
  double test_seconds = 1;
  bool json = false;
  CLI::App app{
      "Examines every fabric: whether it can be used on this host, how to make it usable, and how fast it "
      "is."};
  app.set_version_flag("--version", "rdmc_doctor " RDMC_VERSION);
  app.footer(
      "Exit codes:\n  0    auto finds a fabric, and no self-test failed\n  1    wrong usage\n  2    "
      "otherwise");
  app.add_option("-a,--address", address_text,
                 "address of this host for the port; default: 127.0.0.1, or the address in --device");
  app.add_option(
      "--device", device,
      "device in the form of its fabric, for example for dpdk: \"pci=0000:03:00.0 address=10.0.0.1/24\"");
  app.add_option("--seconds", test_seconds, "duration of each self-test")->check(number_from(0.01, 60.0));
  app.add_flag("--json", json, "print one JSON object on stdout");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  if (address_text.empty() && device.empty()) address_text = "127.0.0.1";
  const Result<Address> address = address_text.empty() ? Address{} : parse_address(address_text, 0);
  if (!address) return complain(address.error());
  auto registry = port::standard_drivers();
  const auto diagnosis = tools::diagnose(registry, {.address = *address, .device = device},
                                         nanoseconds(static_cast<std::int64_t>(test_seconds * 1e9)));
  print(diagnosis, json);
  return is_well(diagnosis) ? 0 : 2;
}

#include "apps/tools/foreign_command.hpp"

#include <fmt/format.h>

#include <utility>

#include "apps/units/option_values.hpp"

namespace rdmc::tools {

ForeignCommand::ForeignCommand(Words words, ForeignOptions& options)
    : words_(std::move(words)), options_(options), app_(words_.purpose) {
  app_.set_version_flag("--version", RDMC_VERSION);
  app_.add_option("SERVER", server_, words_.server);
  app_.add_option("-a,--address", address_, words_.address);
  fabric_ = app_.add_option("--fabric", options_.fabric, "fabric of the messages, or auto");
}

std::optional<int> ForeignCommand::parse(int argc, char** argv, const std::uint16_t& port,
                                         const std::function<void()>& check) {
  double patience = options_.patience.seconds();
  app_.add_option("--device", options_.device,
                  "device in the form of its driver, for example for dpdk: \"pci=0000:03:00.0\"; its address "
                  "is --address");
  add_dscp(app_, options_.dscp);
  app_.add_option("--patience", patience,
                  "timeout in seconds: without progress for this time, the peer is given up")
      ->check(number_from(0.1, 86'400.0));
  app_.add_flag("--json", json_, "print one JSON object on stdout");
  try {
    app_.parse(argc, argv);
    if (check) check();
  } catch (const CLI::ParseError& error) {
    return app_.exit(error) == 0 ? 0 : 1;
  }
  options_.patience = microseconds(static_cast<std::int64_t>(patience * 1e6));
  for (const auto& [text, place] :
       {std::pair(&server_, &options_.server), std::pair(&address_, &options_.address)}) {
    if (text->empty()) continue;
    const auto parsed = parse_address(*text, port);
    if (!parsed) return complain(parsed.error());
    *place = *parsed;
  }
  return std::nullopt;
}

int ForeignCommand::failed(const Error& error, const WireCounters& wire) const {
  complain(fmt::format("{}: {}", name(error.code), error.what));
  if (json_) {
    Json object{{"role", role(options_)}, {"error", name(error.code)}, {"cause", error.what}};
    object.update(json_of(wire));
    print_json(object);
  }
  return 2;
}

const char* role(const ForeignOptions& options) {
  return options.server ? "client" : "server";
}

Json json_of(const WireCounters& wire) {
  const roce::ConnectionCounters& connections = wire.connections;
  return {{"retransmitted", connections.retransmitted},
          {"timeouts", connections.timeouts},
          {"duplicates", connections.duplicates},
          {"sequence_naks_sent", connections.sequence_naks_sent},
          {"sequence_naks_received", connections.sequence_naks_received},
          {"rnr_naks_received", connections.rnr_naks_received},
          {"refused", connections.refused},
          {"refusals_received", connections.refusals_received},
          {"corrupt_packets", wire.corrupt_packets},
          {"stray_packets", wire.stray_packets}};
}

}  // namespace rdmc::tools

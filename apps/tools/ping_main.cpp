// rdmc_ping: the rping of our software endpoint, over rdma_cm's messages. Without a server's address it is
// the server, for one client. `--json` prints one object. Exit status: 0 all done, 1 usage, 2 something
// failed, named on stderr.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/tools/ping.hpp"
#include "apps/units/option_values.hpp"

namespace {

using namespace rdmc;

void print(const tools::PingOptions& options, const tools::PingReport& report, bool json) {
  if (!json) {
    fmt::print("{} texts of {} bytes there and back with {} in {:.2f} seconds, path MTU {}\n",
               report.iterations, options.size_bytes, host_string(report.remote), report.seconds,
               report.path_mtu);
    return;
  }
  const nlohmann::ordered_json object{{"role", options.server ? "client" : "server"},
                                      {"fabric", report.fabric},
                                      {"local", host_string(report.local)},
                                      {"remote", host_string(report.remote)},
                                      {"path_mtu", report.path_mtu},
                                      {"size_bytes", options.size_bytes},
                                      {"iterations", report.iterations},
                                      {"validated", options.validate},
                                      {"seconds", report.seconds},
                                      {"retransmitted", report.transport.retransmitted},
                                      {"timeouts", report.transport.timeouts},
                                      {"duplicates", report.transport.duplicates},
                                      {"sequence_naks_sent", report.transport.sequence_naks_sent},
                                      {"sequence_naks_received", report.transport.sequence_naks_received},
                                      {"management_repeated", report.management.repeated},
                                      {"management_malformed", report.management.malformed},
                                      {"corrupt_packets", report.corrupt_packets}};
  fmt::print("{}\n", object.dump());
}

}  // namespace

int main(int argc, char** argv) {
  tools::PingOptions options;
  bool json = false;
  std::string server, address;
  double patience = 60;
  CLI::App app{"Connects like rdma_cm and carries text by READ and WRITE, with rping or with itself."};
  app.set_version_flag("--version", RDMC_VERSION);
  app.add_option("SERVER", server, "its address; without, be the server for one client");
  app.add_option("-a,--address", address, "of this host, which the peer reaches; the server needs it");
  app.add_option("-p,--port", options.port, "rdma_cm's port number")->check(CLI::Range(1, 65'535));
  app.add_option("-C,--count", options.iterations, "texts; a server without stops when its client does");
  app.add_option("-S,--size", options.size_bytes, "bytes of a text (K allowed); the server's is a limit")
      ->transform(size_value())
      ->check(CLI::Range(tools::kLeastPingBytes, tools::kMostPingBytes));
  app.add_option("-m,--mtu", options.path_mtu,
                 "path MTU that the client asks for; default: the most the link carries")
      ->check(CLI::IsMember({256, 512, 1024, 2048, 4096}));
  app.add_flag("-V,--validate", options.validate, "check every byte");
  app.add_option("--fabric", options.fabric, "packet driver, or auto");
  app.add_option("--patience", patience, "seconds without progress until the peer is given up")
      ->check(CLI::Range(0.1, 86'400.0));
  app.add_flag("--json", json, "one JSON object on stdout");
  try {
    app.parse(argc, argv);
    if (!server.empty() && options.iterations == 0)
      throw CLI::ValidationError("--count", "a client needs a number");
    if (server.empty() && address.empty()) throw CLI::ValidationError("--address", "a server needs one");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  options.patience = microseconds(static_cast<std::int64_t>(patience * 1e6));
  for (const auto& [text, place] :
       {std::pair(&server, &options.server), std::pair(&address, &options.address)}) {
    if (text->empty()) continue;
    const auto parsed = parse_address(*text, options.port);
    if (!parsed) {
      fmt::print(stderr, "rdmc_ping: {}\n", parsed.error().what);
      return 1;
    }
    *place = *parsed;
  }
  const auto report = tools::run_ping(options);
  if (!report) {
    fmt::print(stderr, "rdmc_ping: {}: {}\n", name(report.error().code), report.error().what);
    return 2;
  }
  print(options, *report, json);
  return 0;
}

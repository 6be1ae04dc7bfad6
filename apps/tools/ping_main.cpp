// rdmc_ping: does what rping does, with the software endpoint, over the messages of rdma_cm. Without a
// server's address it is the server. It serves one client, or with -P all clients until it is ended. With
// `--json` it prints one object for each client. Exit status: 0 if everything is done, 1 for wrong usage, 2
// after a failure, which is named on stderr.
#include <fmt/format.h>

#include <cstdio>

#include "apps/tools/foreign_command.hpp"
#include "apps/tools/ping.hpp"
#include "apps/units/option_values.hpp"

namespace {

using namespace rdmc;

void print(const tools::PingOptions& options, const tools::PingReport& report, bool json) {
  if (!json) {
    fmt::print("{} texts of {} bytes there and back with {} in {:.2f} seconds, path MTU {}\n",
               report.iterations, options.size_bytes, host_string(report.remote), report.seconds,
               report.path_mtu);
    std::fflush(stdout);
    return;
  }
  Json object{{"role", role(options)},
              {"fabric", report.fabric},
              {"local", host_string(report.local)},
              {"remote", host_string(report.remote)},
              {"path_mtu", report.path_mtu},
              {"size_bytes", options.size_bytes},
              {"iterations", report.iterations},
              {"validated", options.validate},
              {"seconds", report.seconds}};
  object.update(tools::json_of(report.wire));
  object["management_repeated"] = report.management.repeated;
  object["management_malformed"] = report.management.malformed;
  print_json(object);
}

}  // namespace

int main(int argc, char** argv) {
  tools::PingOptions options;
  bool persistent = false;
  tools::ForeignCommand command(
      {.purpose =
           "Connects like rdma_cm, and carries a text by READ and WRITE. The peer is rping or rdmc_ping.",
       .server =
           "the server's address; without it, be the server, for one client, or with -P for all clients",
       .address = "address of this host at which the peer reaches it; the server needs it"},
      options);
  auto& app = command.app();
  app.add_option("-p,--port", options.port, "port number of rdma_cm")->check(number_from(1, 65'535));
  app.add_option("-C,--count", options.iterations,
                 "number of texts; a server without this option stops when its client does");
  app.add_option("-S,--size", options.size_bytes,
                 "size of a text in bytes (K allowed); for a server, the largest accepted size")
      ->transform(size_value())
      ->check(number_from(tools::kLeastPingBytes, tools::kMostPingBytes));
  app.add_option("-m,--mtu", options.path_mtu,
                 "path MTU that the client requests; default: the largest that the link carries")
      ->check(one_of({256, 512, 1024, 2048, 4096}));
  app.add_flag("-V,--validate", options.validate, "check every byte");
  app.add_flag(
      "-P,--persistent", persistent,
      "serve one client after the other until the program is ended, also after failures; servers only");
  const auto ended = command.parse(argc, argv, options.port, [&] {
    if (!command.is_server() && options.iterations == 0)
      throw CLI::ValidationError("--count", "a client needs a number");
    if (command.is_server() && !command.names_address())
      throw CLI::ValidationError("--address", "a server needs one");
    if (!command.is_server() && persistent) throw CLI::ValidationError("--persistent", "is for servers");
  });
  if (ended) return *ended;
  if (persistent) {
    const auto after_each = [&](const Result<void>& done, const tools::PingReport& report) {
      if (done)
        print(options, report, command.json());
      else
        command.failed(done.error(), report.wire);
    };
    return command.failed(tools::serve_pings(options, after_each).error(), {});
  }
  tools::PingReport report;
  if (const auto done = tools::run_ping(options, report); !done)
    return command.failed(done.error(), report.wire);
  print(options, report, command.json());
  return 0;
}

// rdmc_pingpong: the ibv_rc_pingpong of our software endpoint. Without a server's address it is the server.
// `--json` prints one object; without it the lines that ibv_rc_pingpong prints. Exit status: 0 all iterations
// done, 1 usage, 2 something failed, named on stderr.
#include <fmt/format.h>

#include "apps/tools/pingpong.hpp"
#include "apps/tools/stranger_command.hpp"
#include "apps/units/option_values.hpp"

namespace {

using namespace rdmc;

void print_end(const char* whose, const control::PingpongEnd& end) {
  fmt::print("  {:<14} LID 0x0000, QPN 0x{:06x}, PSN 0x{:06x}, GID {}{}\n", whose, value_of(end.qpn),
             end.psn.value(), end.address.ipv6 ? "" : "::ffff:", host_string(end.address));
}

nlohmann::ordered_json object_of(const control::PingpongEnd& end) {
  return {{"address", host_string(end.address)}, {"qpn", value_of(end.qpn)}, {"psn", end.psn.value()}};
}

void print(const tools::PingpongOptions& options, const tools::PingpongReport& report, bool json) {
  const double bytes = 2.0 * options.size_bytes * options.iterations;
  const double microseconds_each = report.seconds * 1e6 / options.iterations;
  if (!json) {
    print_end("local address:", report.ours);
    print_end("remote address:", report.theirs);
    fmt::print("{:.0f} bytes in {:.2f} seconds = {:.2f} Mbit/sec\n", bytes, report.seconds,
               bytes * 8e-6 / report.seconds);
    fmt::print("{} iters in {:.2f} seconds = {:.2f} usec/iter\n", options.iterations, report.seconds,
               microseconds_each);
    return;
  }
  nlohmann::ordered_json object{{"role", role(options)},
                                {"fabric", report.fabric},
                                {"local", object_of(report.ours)},
                                {"remote", object_of(report.theirs)},
                                {"path_mtu", options.path_mtu},
                                {"size_bytes", options.size_bytes},
                                {"iterations", options.iterations},
                                {"checked", options.check},
                                {"seconds", report.seconds},
                                {"microseconds_per_iteration", microseconds_each}};
  object.update(tools::json_of(report.wire));
  fmt::print("{}\n", object.dump());
}

}  // namespace

int main(int argc, char** argv) {
  tools::PingpongOptions options;
  tools::StrangerCommand command(
      {.program = "rdmc_pingpong",
       .purpose = "Exchanges messages with ibv_rc_pingpong or with itself, over RoCEv2 in software.",
       .server = "its address; without, be the server and wait for one client",
       .address = "of this host, for the messages; default: that of the TCP connection"},
      options);
  auto& app = command.app();
  app.add_option("-p,--port", options.tcp_port, "TCP port of the first contact")
      ->check(CLI::Range(1, 65'535));
  app.add_option("-m,--mtu", options.path_mtu, "path MTU, the same at the peer")
      ->check(CLI::IsMember({256, 512, 1024, 2048, 4096}));
  app.add_option("-s,--size", options.size_bytes, "bytes of a message (K, M allowed)")
      ->transform(size_value())
      ->check(CLI::Range(1U, 8U << 20));
  app.add_option("-n,--iters", options.iterations, "messages in each direction")
      ->check(CLI::Range(1U, 100'000'000U));
  app.add_option("-r,--rx-depth", options.receive_depth, "receives posted")->check(CLI::Range(1U, 65'536U));
  app.add_flag("-c,--chk", options.check, "check every byte received; the peer needs -c as well");
  if (const auto ended = command.parse(argc, argv, options.tcp_port)) return *ended;
  tools::PingpongReport report;
  if (const auto done = tools::run_pingpong(options, report); !done)
    return command.failed(done.error(), report.wire);
  print(options, report, command.json());
  return 0;
}

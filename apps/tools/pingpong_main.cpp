// rdmc_pingpong: does what ibv_rc_pingpong does, with the software endpoint. Without a server's address it is
// the server. With `--json` it prints one object, otherwise the lines that ibv_rc_pingpong prints. Exit
// status: 0 if all iterations are done, 1 for wrong usage, 2 after a failure, which is named on stderr.
#include <fmt/format.h>

#include <algorithm>

#include "apps/tools/foreign_command.hpp"
#include "apps/tools/local_end.hpp"
#include "apps/tools/pingpong.hpp"
#include "apps/units/option_values.hpp"

namespace {

using namespace rdmc;

void print_end(const char* whose, const control::PingpongEnd& end) {
  fmt::print("  {:<14} LID 0x0000, QPN 0x{:06x}, PSN 0x{:06x}, GID {}{}\n", whose, value_of(end.qpn),
             end.psn.value(), end.address.ipv6 ? "" : "::ffff:", host_string(end.address));
}

Json object_of(const control::PingpongEnd& end) {
  return {{"address", host_string(end.address)}, {"qpn", value_of(end.qpn)}, {"psn", end.psn.value()}};
}

void print(const tools::PingpongOptions& options, const tools::PingpongReport& report, bool json) {
  const double bytes = 2.0 * options.size_bytes * options.iterations;
  const double microseconds_each = report.seconds * 1e6 / options.iterations;
  const tools::CompletionGaps& gaps = report.gaps;
  const double average =
      gaps.total.microseconds() / static_cast<double>(std::max<std::uint64_t>(gaps.count, 1));
  if (!json) {
    print_end("local address:", report.ours);
    print_end("remote address:", report.theirs);
    fmt::print("{:.0f} bytes in {:.2f} seconds = {:.2f} Mbit/sec\n", bytes, report.seconds,
               bytes * 8e-6 / report.seconds);
    fmt::print("{} iters in {:.2f} seconds = {:.2f} usec/iter\n", options.iterations, report.seconds,
               microseconds_each);
    if (options.timestamps)
      fmt::print("receive completions apart: max {:.2f}, min {:.2f}, average {:.2f} usec\n",
                 gaps.most.microseconds(), gaps.least.microseconds(), average);
    return;
  }
  Json object{{"role", role(options)},
              {"fabric", report.fabric},
              {"local", object_of(report.ours)},
              {"remote", object_of(report.theirs)},
              {"path_mtu", options.path_mtu},
              {"size_bytes", options.size_bytes},
              {"iterations", options.iterations},
              {"checked", options.check},
              {"seconds", report.seconds},
              {"microseconds_per_iteration", microseconds_each}};
  if (options.timestamps)
    object["receive_completions_apart"] = {{"count", gaps.count},
                                           {"max_us", gaps.most.microseconds()},
                                           {"min_us", gaps.least.microseconds()},
                                           {"average_us", average}};
  object.update(tools::json_of(report.wire));
  print_json(object);
}

/// Sets the fabric and the address that -d, -i and -g name.
Result<void> place(const tools::DeviceWords& words, tools::PingpongOptions& options) {
  if (words.device.empty() && words.port == 1 && !words.gid_index) return {};
  const auto addresses = port::interface_addresses();
  if (!addresses) return std::unexpected(addresses.error());
  const auto end = tools::choose_local_end(words, *addresses);
  if (!end) return std::unexpected(end.error());
  if (!end->fabric.empty()) options.fabric = end->fabric;
  if (end->address && !options.address) options.address = end->address;
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  tools::PingpongOptions options;
  tools::DeviceWords words;
  bool prefetch = false, new_send = false, device_memory = false;
  std::uint32_t service_level = 0;
  tools::ForeignCommand command(
      {.purpose = "Exchanges messages over RoCEv2 in software. The peer is ibv_rc_pingpong or rdmc_pingpong.",
       .server = "the server's address; without it, be the server and wait for one client",
       .address = "address of this host for the messages; default: the address of the TCP connection"},
      options);
  auto& app = command.app();
  app.add_option("-p,--port", options.tcp_port, "TCP port number of the first contact")
      ->check(number_from(1, 65'535));
  app.add_option("-m,--mtu", options.path_mtu, "path MTU; must be the same at the peer")
      ->check(one_of({256, 512, 1024, 2048, 4096}));
  app.add_option("-s,--size", options.size_bytes, "size of a message in bytes (K, M allowed)")
      ->transform(size_value())
      ->check(number_from(1U, 8U << 20));
  app.add_option("-n,--iters", options.iterations, "number of messages in each direction")
      ->check(number_from(1U, 100'000'000U));
  app.add_option("-r,--rx-depth", options.receive_depth, "number of posted receives")
      ->check(number_from(1U, 65'536U));
  app.add_flag("-c,--chk", options.check, "check every received byte; the peer also needs -c");
  app.add_option("-d,--ib-dev", words.device, "an RDMA device, a network interface, or a fabric")
      ->excludes(command.fabric());
  app.add_option("-i,--ib-port", words.port, "port of an RDMA device; all others have only port 1");
  app.add_option(
         "-g,--gid-idx", words.gid_index,
         "index of the address for the messages: in an RDMA device's table, or from 0 in the addresses of an "
         "interface or of this host")
      ->excludes(app.get_option("--address"));
  app.add_flag("-e,--events", options.sleep,
               "sleep until something completes; without this option, poll for 50 us first");
  app.add_flag("-o,--odp,-O,--iodp", options.on_demand_paging,
               "allocate pages on demand; fabrics that pin memory refuse this, and all others always do it");
  app.add_flag(
      "-P,--prefetch", prefetch,
      "allocate pages at the start; this always happens, because buffers are filled first; only with -o");
  app.add_flag("-t,--ts", options.timestamps,
               "print the times between the completions of messages, by this host's clock");
  app.add_flag("-N,--new_send", new_send, "accepted without effect: there is one way of posting here");
  app.add_option("-l,--sl", service_level, "must be 0: Ethernet has no other service level");
  app.add_flag("-j,--dm", device_memory, "refused: no fabric here has device memory");
  const auto check = [&] {
    if (service_level != 0)
      throw CLI::ValidationError("--sl", "RoCEv2 packets say no service level, so none but 0 can be had");
    if (device_memory) throw CLI::ValidationError("--dm", "no fabric here has memory on its device");
    if (prefetch && !options.on_demand_paging)
      throw CLI::ValidationError("--prefetch", "is for memory that is paged on demand: -o");
  };
  if (const auto ended = command.parse(argc, argv, options.tcp_port, check)) return *ended;
  if (const auto placed = place(words, options); !placed) return complain(placed.error());
  tools::PingpongReport report;
  if (const auto done = tools::run_pingpong(options, report); !done)
    return command.failed(done.error(), report.wire);
  print(options, report, command.json());
  return 0;
}

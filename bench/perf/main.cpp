// rdmc_perf: measures the stack between processes that it starts itself, without any other program for
// comparison. With `--json` it prints one JSON object, otherwise the same values as text. Exit status: 0, 1
// (usage) or 2 (a member failed; the reason is on stderr).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>

#include "apps/program/output.hpp"
#include "apps/units/option_values.hpp"
#include "apps/units/schedule_options.hpp"
#include "bench/line_round_trip.hpp"
#include "bench/perf/auto_choice.hpp"
#include "bench/perf/connections.hpp"
#include "bench/perf/dpdk_ports.hpp"
#include "bench/perf/run.hpp"
#include "bench/perf/sockets.hpp"
#include "dataplane/fabric/standard_fabrics.hpp"

namespace rdmc::perf {
namespace {

Json report(const Options& options, const Rendezvous& meet) {
  const std::vector<double> seconds = seconds_taken(options, meet);
  const std::span figures(meet.figures.data(), options.members);
  double cpu = 0;
  std::uint64_t copied = 0, exchanged = 0, in_place = 0, repaired = 0;
  std::uint64_t retransmitted = 0, timeouts = 0, dropped = 0, system_calls = 0;
  for (const MemberFigures& f : figures) {
    cpu += f.cpu_seconds;
    copied += f.bytes_copied;
    exchanged += f.first_blocks_in_place;
    in_place += f.packets_in_place;
    repaired += f.packets_repaired;
    retransmitted += f.retransmitted;
    timeouts += f.timeouts;
    dropped += f.receive_dropped;
    system_calls += f.system_calls;
  }
  Json json{{"members", options.members}, {"size_bytes", options.size_bytes}};
  if (options.test == Test::latency) {
    json.update({{"fabric", figures[0].driver.data()},
                 {"path_mtu", figures[0].path_mtu},
                 {"icrc", figures[0].icrc},
                 {"encrypted", figures[0].encrypted},
                 {"iterations", options.iterations}});
    json["p50_us"] = percentile(seconds, 0.5) * 1e6;
    json["p99_us"] = percentile(seconds, 0.99) * 1e6;
    json["cpu_seconds"] = cpu;
    return json;
  }
  if (options.test == Test::rate) {
    // Each side uses one core. The figure is the rate at which one core sends and another core receives.
    json.update({{"fabric", figures[0].driver.data()},
                 {"icrc", figures[0].icrc},
                 {"encrypted", figures[0].encrypted},
                 {"iterations", options.iterations},
                 {"messages", kMessagesPerIteration},
                 {"messages_per_second", kMessagesPerIteration / percentile(seconds, 0.5)},
                 {"cpu_seconds", cpu}});
    return json;
  }
  // The result is the sum of two numbers: the copies of each byte by the carrier of the packets, and the
  // copies by this program for each byte that one member sends to another.
  const double hops = static_cast<double>(options.members - 1) * static_cast<double>(options.size_bytes) *
                      options.senders * (kWarmUpIterations + options.iterations);
  const double median = percentile(seconds, 0.5);
  json.update({{"block_bytes", options.block_bytes},
               {"algorithm", options.test == Test::bcast ? relay::to_string(options.algorithm) : "none"},
               {"fabric", figures[0].driver.data()},
               {"path_mtu", figures.back().path_mtu},
               {"icrc", figures[0].icrc},
               {"encrypted", figures[0].encrypted},
               {"copies_per_byte",
                figures[0].carrier_copies_per_byte + (hops > 0 ? static_cast<double>(copied) / hops : 0.0)}});
  if (options.test == Test::bcast) json["senders"] = options.senders;
  if (options.read_only) json["read_only"] = true;
  // "exchanged" means: not copied.
  if (options.test == Test::bcast) json["first_block"] = exchanged > 0 ? "exchanged" : "copied";
  json.update({{"iterations", options.iterations},
               {"mean_seconds",
                std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size())},
               {"median_seconds", median},
               {"p99_seconds", percentile(seconds, 0.99)},
               {"goodput_gbps", static_cast<double>(options.size_bytes) * 8 / median / 1e9},
               {"cpu_seconds", cpu},
               {"packets_in_place", in_place},
               {"packets_repaired", repaired},
               {"retransmitted", retransmitted},
               {"timeouts", timeouts},
               {"receive_dropped", dropped},
               {"system_calls", system_calls}});
  return json;
}

int run(const Options& options) {
  Rendezvous* const meet = Rendezvous::make(options.members);
  if (meet == nullptr) return complain("no shared memory", 2);
  const double line_before = bench::line_round_trip_ns();
  if (auto done = run_members(options, *meet); !done) return complain(done.error(), 2);
  auto json = report(options, *meet);
  json["line_ns_before"] = line_before;
  json["line_ns_after"] = bench::line_round_trip_ns();
  print_results(json, options.json);
  return 0;
}

}  // namespace
}  // namespace rdmc::perf

int main(int argc, char** argv) {
  using namespace rdmc::perf;
  Options options;
  CLI::App app{"Measures rdmc between processes that it starts itself. Each process has its own memory."};
  app.set_version_flag("--version", "rdmc_perf " RDMC_VERSION);
  app.footer(
      "Exit codes:\n  0    measured\n  1    wrong usage\n  2    a member failed; the reason is on stderr");
  app.require_subcommand(1);
  double spin_us = options.spin.microseconds();
  bool go_back_n = false;
  rdmc::ScheduleOptions schedule{
      .algorithm = std::string(rdmc::relay::to_string(rdmc::relay::Algorithm::binomial_pipeline)),
      .rack_sizes = {}};
  const auto add = [&](const char* name, const char* what, Test test, std::uint32_t iterations) {
    CLI::App* const sub = app.add_subcommand(name, what);
    sub->add_option("--members", options.members, "number of members, including the root")
        ->check(CLI::Range(1U, kMostMembers));
    sub->add_option("--size", options.size_bytes, "size of a message in bytes (K, M, G allowed)")
        ->transform(rdmc::size_value());
    sub->add_option("--iterations", options.iterations,
                    "number of timed iterations, after two warm-up iterations")
        ->check(CLI::Range(1U, kMostIterations - kWarmUpIterations));
    sub->add_option(
           "--block-size", options.block_bytes,
           "size of a block in bytes (K, M, G allowed); auto: the best one of several that are tried")
        ->transform(rdmc::size_or_auto_value());
    sub->add_option("--fabric", options.fabric)->check(CLI::IsMember(rdmc::fabric::fabric_names()));
    schedule.declare(*sub);
    sub->add_option(
           "--api", options.api,
           "the API to measure; qp: the library's own classes, for every test; unicast: rdmc/unicast.hpp in "
           "the "
           "caller's thread; unicast-thread: the same with a separate thread; socket: rdmc's sockets; tcp: "
           "the "
           "kernel's sockets; these four for unicast and latency; socket-zc: sockets without copies, for "
           "unicast only; group: small messages to all members, for rate only")
        ->check(CLI::IsMember({"qp", "unicast", "unicast-thread", "group", "socket", "socket-zc", "tcp"}));
    sub->add_option("--path-mtu", options.path_mtu, "largest payload of a packet")
        ->check(CLI::Range(256U, 65'535U));
    sub->add_option("--writes-in-flight", options.writes_in_flight,
                    "number of blocks that a member may have in flight");
    if (test == Test::bcast) {
      sub->add_flag("--until-stable", options.until_stable,
                    "end the time when every member knows that all have the message; this is a barrier");
      sub->add_flag("--read-only", options.read_only,
                    "members read the message in the root's memory (shm); the time is that of the access, "
                    "without copies");
      sub->add_option("--senders", options.senders,
                      "number of groups that send at once; each has all members and another root")
          ->check(CLI::Range(1U, kMostMembers));
    }
    sub->add_option("--spin", spin_us, "time to poll before blocking, in microseconds");
    sub->add_flag("--busy-poll", options.busy_poll, "never block");
    rdmc::add_dscp(*sub, options.dscp);
    sub->add_flag("--encrypt", options.encrypt, "AES-256-GCM on every packet, in place of the ICRC");
    sub->add_flag("--icrc", options.icrc_on_loopback, "also compute and check ICRCs over loopback");
    sub->add_flag("--go-back-n", go_back_n, "without selective repeat, as with foreign endpoints");
    sub->add_option("--place", options.places,
                    "network namespace and address, NAMESPACE=ADDRESS, for each member, the root's first");
    sub->add_option(
        "--dpdk", options.devices,
        "DPDK device of each member, the root's first: \"vdev=DEVICE,ARGUMENTS address=ADDR/BITS …\"; "
        "default: a memif between two");
    sub->add_flag("--json", options.json, "print one JSON object on stdout");
    sub->callback([&options, test, iterations, sub] {
      options.test = test;
      if (test != Test::bcast && sub->count("--members") == 0) options.members = 2;
      if (sub->count("--iterations") == 0) options.iterations = iterations;
      if ((test == Test::latency || test == Test::rate) && sub->count("--size") == 0) options.size_bytes = 64;
    });
  };
  add("unicast", "transfers over one queue pair, from memory to memory", Test::unicast, 10);
  add("latency", "requests and replies over one queue pair", Test::latency, 5000);
  add("rate", "many small SENDs: messages per second that one core sends and another one receives",
      Test::rate, 10);
  add("bcast", "sends the root's message to every member", Test::bcast, 10);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 1;
  }
  options.spin = rdmc::nanoseconds(static_cast<std::int64_t>(spin_us * 1000));
  options.selective_repeat = !go_back_n;
  if (options.fabric == "dpdk" && options.devices.empty()) options.devices = memif_devices(options);
  if (options.api == "group" && options.test != Test::rate)
    return rdmc::complain("--api group: only of rate");
  if ((is_of_sockets(options) || is_of_connections(options)) && options.test != Test::unicast &&
      options.test != Test::latency)
    return rdmc::complain("--api " + options.api + ": only of unicast and latency");
  if (options.api == "socket-zc" && options.test != Test::unicast)
    return rdmc::complain("--api socket-zc: only of unicast");
  if (options.api == "group" && options.size_bytes > 8192)
    return rdmc::complain("--size: small messages have at most 8192 bytes");
  if (options.test != Test::bcast && options.api != "group" && options.members != 2)
    return rdmc::complain("--members: unicast and latency have two members");
  if (options.senders > options.members) return rdmc::complain("--senders: more than members");
  options.algorithm = schedule.chosen().value_or(options.algorithm);
  const auto racks = schedule.racks(options.members);
  if (!racks) return rdmc::complain(racks.error());
  options.racks = *racks;
  if (options.writes_in_flight == 0) options.writes_in_flight = 16;
  if (!options.places.empty() && options.places.size() != options.members)
    return rdmc::complain("--place must name every member");
  if (options.test == Test::bcast) {
    if (auto done = choose(options, !schedule.chosen()); !done)
      return rdmc::complain("auto: " + done.error().what, 2);
  }
  return run(options);
}

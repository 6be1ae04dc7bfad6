// rdmc_sim: runs a scenario in virtual time. The same options give the same trace hash, so a failure is
// replayed by its seed. Exit status: 0 without violations, 1 for wrong usage, 2 with violations, 3 if a
// requested fault never happened.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <sstream>

#include "apps/program/output.hpp"
#include "apps/sim/auto_choice.hpp"
#include "apps/sim/kv_command.hpp"
#include "apps/sim/scenario.hpp"
#include "apps/sim/store_command.hpp"
#include "apps/sim/views_command.hpp"
#include "apps/units/option_values.hpp"
#include "apps/units/schedule_options.hpp"
#include "dataplane/relay/relay.hpp"
#include "dataplane/sim/trace.hpp"

namespace {

using rdmc::sim_app::ScenarioOptions;
using rdmc::sim_app::ScenarioResult;

constexpr std::uint32_t kMostBlockBytes = 8 << 20;
/// With this number of members or more, a run of the packet model takes too long.
constexpr std::uint32_t kMembersForBlocks = 256;
constexpr std::uint32_t kMostMembersOfPackets = 1024;
constexpr std::uint32_t kMostMembers = 65'536;
constexpr std::uint64_t kDefaultWindow = 32 << 20;  // The value is the same as in rdmc_bcast.
constexpr std::uint32_t kMostDelay = 1'000'000;     // In microseconds.
constexpr const char* kOnlyPackets = "With --model packets";
constexpr const char* kOnlyBlocks = "With --model blocks";

// Reads a list of faults: "none", "all", or names separated by commas. Sets rates that a bad network might
// have. "all" does not include the faults of the sender, because without the sender there is often nothing to
// deliver. The names of the faults are put into `asked`. Returns an error message, or an empty string.
std::string apply_faults(const std::string& list, ScenarioOptions& options, std::vector<std::string>& asked) {
  std::istringstream kinds(list);
  for (std::string kind; std::getline(kinds, kind, ',');) {
    const bool all = kind == "all";
    bool known = all || kind == "none";
    const auto names = [&](const char* name) {
      known = known || kind == name;
      if (kind == name) asked.emplace_back(name);
      return kind == name;
    };
    const auto is = [&](const char* name) {
      if (all) asked.emplace_back(name);
      return all || names(name);
    };
    if (is("loss")) options.rates.loss = 10'000;
    if (is("duplicate")) options.rates.duplicate = 5'000;
    if (is("reorder")) options.rates.reorder = 10'000;
    if (is("corrupt")) options.rates.corrupt = 2'000;
    if (is("delay")) options.rates.delay = 2'000;
    if (is("kill")) options.kills = 1;
    if (names("root_kill")) options.root_kills = 1;
    if (names("root_stop")) options.root_stops = 1;
    if (is("pause")) options.pauses = 1;
    if (is("slow_disk")) options.slow_disks = 1;
    if (is("full_disk")) options.full_disks = 1;
    if (!known) return "unknown fault '" + kind + "'";
  }
  return {};
}

/// Reads texts of the form "RANK:VALUE" into `hosts`. `parse` reads the value and returns a Result. Returns
/// an error message, or an empty string.
template <typename Value, typename Parse>
std::string read_hosts(const char* option, const char* what, const std::vector<std::string>& texts,
                       std::uint32_t members, Parse parse, std::map<std::uint32_t, Value>& hosts) {
  for (const std::string& text : texts) {
    std::uint32_t rank = 0;
    const char* const end = text.data() + text.size();
    const auto [after, error] = std::from_chars(text.data(), end, rank);
    if (error != std::errc{} || after == end || *after != ':' || rank >= members)
      return fmt::format("{}: '{}' is not the rank of a member, a colon and {}", option, text, what);
    const rdmc::Result<Value> value = parse(std::string_view(after + 1, end));
    if (!value) return fmt::format("{}: {}", option, value.error().what);
    hosts[rank] = *value;
  }
  return {};
}

rdmc::Result<rdmc::Duration> parse_delay(std::string_view text) {
  std::uint32_t number = 0;
  const auto [after, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || after != text.data() + text.size() || number > kMostDelay)
    return rdmc::fail(rdmc::Errc::invalid_argument,
                      fmt::format("'{}' is no number of microseconds up to {}", text, kMostDelay));
  return rdmc::microseconds(number);
}

void report(std::uint64_t seed, const ScenarioResult& result, bool json) {
  rdmc::Json object{{"seed", seed},
                    {"trace_hash", rdmc::sim::hash_string(result.trace_hash)},
                    {"virtual_seconds", result.virtual_seconds},
                    {"events", result.events},
                    {"violations", result.violations.size()},
                    {"faults", result.faults}};
  for (const auto& [name, value] : result.figures) object[name] = value;
  object["skew_seconds"] = result.skew_seconds;
  if (!result.algorithm.empty()) {
    object["algorithm"] = result.algorithm;
    object["block_bytes"] = result.block_bytes;
  }
  object["bound_seconds"] = result.bound_seconds;
  object["rescue_seconds"] = result.rescue_seconds;
  if (!result.delivered_seconds.empty()) object["delivered_seconds"] = result.delivered_seconds;
  rdmc::print_results(object, json);
  for (const std::string& violation : result.violations) rdmc::complain("violation: " + violation);
}

/// Prints the result and returns the exit status. `asked` has the faults that must have struck.
int conclude(std::uint64_t seed, const ScenarioResult& result, std::vector<std::string> asked, bool json) {
  report(seed, result, json);
  if (!result.violations.empty()) return 2;
  std::erase_if(asked, [&](const std::string& kind) { return result.faults.at(kind) > 0; });
  for (const std::string& kind : asked)
    rdmc::complain(kind + " was asked for and never struck: nothing was tried");
  return asked.empty() ? 0 : 3;
}

template <typename Command>
int run(Command& command, bool json) {
  const auto result = command.run();
  return result ? conclude(command.seed(), *result, command.faults_asked(), json)
                : rdmc::complain(result.error());
}

CLI::Option* add_microseconds(CLI::App& bcast, const char* name, rdmc::Duration& value, const char* what) {
  return bcast
      .add_option_function<double>(
          name, [&value](double us) { value.ns = static_cast<std::int64_t>(us * 1000); }, what)
      ->check(rdmc::number_from(0.0, double{kMostDelay}));
}

void add_block_options(CLI::App& bcast, rdmc::sim_app::BlockModel& model) {
  const auto microseconds = [&](const char* name, rdmc::Duration& value, const char* what) {
    add_microseconds(bcast, name, value, what)->group(kOnlyBlocks);
  };
  const auto number = [&](const char* name, std::uint32_t& value, const char* what, std::uint32_t least,
                          std::uint32_t most) {
    bcast.add_option(name, value, what)->check(rdmc::number_from(least, most))->group(kOnlyBlocks);
  };
  microseconds("--latency", model.latency, "latency of a hop in microseconds (default 5)");
  microseconds("--relay-cost", model.relay_cost,
               "time of a core for each block in microseconds (default 50)");
  microseconds(
      "--jitter", model.jitter,
      "largest random delay that is added to each latency and each relay cost, in microseconds (default 10)");
  number("--writes-in-flight", model.writes_in_flight,
         "number of writes that one member may have in flight (default 64)", 1,
         rdmc::relay::kMaxWritesInFlight);
  number("--senders", model.senders,
         "number of groups that send at once; each has all members and another root", 1, 256);
  number("--slow-links", model.slow_links, "number of slow connections, chosen by the seed", 1, UINT32_MAX);
  number("--slow-percent", model.slow_percent,
         "percentage of slow connections; if there are racks, of the connections between racks", 1, 100);
  bcast
      .add_option("--slow-rate", model.slow_rate,
                  "rate of a slow connection in each direction, in bits per second (k, m, g allowed)")
      ->transform(rdmc::rate_value())
      ->group(kOnlyBlocks);
}

/// Checks the options against each other. Returns an error message, or an empty string.
std::string check_model(const CLI::App& bcast, const ScenarioOptions& options) {
  const auto& blocks = options.blocks;
  const bool packets = options.model == rdmc::sim_app::Model::packets;
  for (const CLI::Option* const option : bcast.get_options()) {
    if (option->count() != 0 && option->get_group() == (packets ? kOnlyBlocks : kOnlyPackets))
      return fmt::format("{}: not with --model {}", option->get_name(), packets ? "packets" : "blocks");
  }
  if (packets && options.members > kMostMembersOfPackets)
    return fmt::format("--members: more than {} take --model blocks", kMostMembersOfPackets);
  if (blocks.senders > options.members) return "--senders: more than members";
  if ((blocks.slow_links != 0 || blocks.slow_percent != 0) && blocks.slow_rate == 0)
    return "--slow-links and --slow-percent need --slow-rate";
  if (options.uplink_rate != 0 && !options.racks.is_known()) return "--uplink-rate needs --racks";
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  ScenarioOptions options;
  bool json = false, go_back_n = false;
  rdmc::ScheduleOptions schedule;  // Without options, the defaults are those of rdmc_bcast.
  std::string faults = "none", model;
  std::vector<std::string> slow_hosts, far_hosts;
  CLI::App app{
      "Runs the product's own cores in a simulated network. A run is a function of its options and its "
      "seed."};
  app.set_version_flag("--version", "rdmc_sim " RDMC_VERSION);
  app.footer(
      "Exit codes:\n  0    no violation\n  1    wrong usage\n  2    violations, which are named on stderr\n"
      "  3    no violation, but a requested fault never struck; it is named on stderr");
  app.require_subcommand(1);
  CLI::App* const bcast = app.add_subcommand("bcast", "sends one file from a root to every other member");
  bcast->add_option("--seed", options.seed);
  bcast->add_option("--members", options.members, "number of members, including the root")
      ->check(rdmc::number_from(2U, kMostMembers));
  bcast->add_option("--size", options.size_bytes, "size of the file in bytes (K, M, G allowed)")
      ->transform(rdmc::size_value());
  bcast
      ->add_option("--block-size", options.block_bytes,
                   "size of a block in bytes (K, M allowed), or auto; default: auto, chosen as in rdmc_bcast")
      ->transform(rdmc::size_or_auto_value())
      ->check(rdmc::number_from(0U, kMostBlockBytes));
  schedule.declare(*bcast);
  bcast
      ->add_option(
          "--uplink-rate", options.uplink_rate,
          "rate of each rack's uplink in each direction, in bits per second (k, m, g allowed); default: as "
          "--rate")
      ->transform(rdmc::rate_value());
  bcast
      ->add_option("--window", options.window_bytes,
                   "size of a member's ring in bytes (K, M allowed); default: as in rdmc_bcast")
      ->transform(rdmc::size_value());
  bcast->add_option("--rate", options.rate, "rate of every link in bits per second (k, m, g allowed)")
      ->transform(rdmc::rate_value());
  bcast
      ->add_option(
          "--slow-host", slow_hosts,
          "gives the link of the member with this rank another rate, for example 5:500m; may be repeated")
      ->type_name("RANK:RATE")
      ->allow_extra_args(false);
  bcast
      ->add_option("--far-host", far_hosts,
                   "gives the link of the member with this rank another delay in microseconds, for example "
                   "5:20000; may be repeated")
      ->type_name("RANK:MICROSECONDS")
      ->allow_extra_args(false)
      ->group(kOnlyPackets);
  bcast->add_option("--mtu", options.mtu, "MTU of every link")
      ->check(rdmc::number_from(576U, 65'535U))
      ->group(kOnlyPackets);
  add_microseconds(*bcast, "--link-delay", options.link_delay,
                   "delay of every link in microseconds; there are two links between two hosts (default 5)")
      ->group(kOnlyPackets);
  bcast
      ->add_option("--faults", faults,
                   "none, all (except the faults of the sender), or some of "
                   "loss,duplicate,reorder,corrupt,delay,kill,root_kill,root_stop,pause,slow_disk,full_disk")
      ->group(kOnlyPackets);
  bcast
      ->add_option(
          "--model", model,
          "packets: the RC core over simulated packets; blocks: the relay over a fluid network, the default "
          "for 256 members or more")
      ->check(rdmc::one_of({"packets", "blocks"}));
  bcast->add_flag("--go-back-n", go_back_n, "without selective repeat, as with foreign endpoints")
      ->group(kOnlyPackets);
  add_block_options(*bcast, options.blocks);
  bcast->add_flag("--json", json, "print one JSON object on stdout");
  rdmc::sim_app::ViewsCommand views(app, json);
  rdmc::sim_app::StoreCommand store(app, json);
  rdmc::sim_app::KvCommand kv(app, json);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  if (views.is_asked()) return run(views, json);
  if (store.is_asked()) return run(store, json);
  if (kv.is_asked()) return run(kv, json);
  options.selective_repeat = !go_back_n;
  options.algorithm = schedule.chosen().value_or(options.algorithm);
  const auto racks = schedule.racks(options.members);
  if (!racks) return rdmc::complain(racks.error());
  options.racks = *racks;
  if (model == "blocks" || (model.empty() && options.members >= kMembersForBlocks)) {
    options.model = rdmc::sim_app::Model::blocks;
  }
  std::string wrong = read_hosts(
      "--slow-host", "a rate", slow_hosts, options.members,
      [](std::string_view text) { return rdmc::parse_rate(text); }, options.slow_hosts);
  if (wrong.empty())
    wrong =
        read_hosts("--far-host", "microseconds", far_hosts, options.members, parse_delay, options.far_hosts);
  if (!wrong.empty()) return rdmc::complain(wrong);
  if (const std::string error = check_model(*bcast, options); !error.empty()) return rdmc::complain(error);
  if (bcast->count("--block-size") == 0) options.block_bytes = 0;
  if (bcast->count("--window") == 0) options.window_bytes = kDefaultWindow;
  rdmc::sim_app::choose(
      options, {.algorithm = schedule.chosen(),
                .block_bytes = options.block_bytes == 0 ? std::nullopt : std::optional(options.block_bytes)});
  std::vector<std::string> asked;
  if (const std::string error = apply_faults(faults, options, asked); !error.empty())
    return rdmc::complain(error);
  return conclude(options.seed, rdmc::sim_app::run_bcast(options), std::move(asked), json);
}

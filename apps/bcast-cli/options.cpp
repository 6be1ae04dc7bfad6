#include "apps/bcast-cli/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <tuple>
#include <utility>

#include "apps/units/identity_options.hpp"
#include "apps/units/option_values.hpp"
#include "apps/units/units.hpp"
#include "dataplane/fabric/standard_fabrics.hpp"

namespace rdmc::bcast {
namespace {

constexpr const char* kVersionText = "rdmc_bcast " RDMC_VERSION;

constexpr const char* kKeygenFooter =
    R"(To change the key while the programs run:
  1. rdmc_bcast keygen --rotate add FILE       appends a new key to FILE
  2. rdmc_bcast keygen --rotate promote FILE   makes the last key of FILE the first one
  3. rdmc_bcast keygen --rotate retire FILE    removes all keys from FILE except the first one
Copy FILE to every host after each step, before the next one. Running programs notice that FILE has changed.
Existing connections stay open.)";

constexpr const char* kSendFooter =
    R"(Other commands:
  rdmc_bcast agent --listen ADDR[:PORT] --root DIR --key-file FILE   receive files on this host
  rdmc_bcast keygen FILE                                             make a new cluster key
To send a file that is named agent or keygen, write ./agent or ./keygen.

HOSTLIST has the syntax of pdsh: web[01-12,20],10.0.0.[2-9]:7701,[2001:db8::1]:7700,^FILE,-web07
^FILE reads a list from a file, and -web07 removes a host. The default port is 7700.
DEST is a path on each receiving host, relative to the agent's root directory. If DEST ends with a slash or
is an existing directory, the copy is put into this directory under the name of the source. Otherwise DEST is
the new name of the copy. With --local N the copies are DEST/0/NAME to DEST/N-1/NAME.
A copy gets the permissions of its source, whatever the umask is, but no setuid, setgid or sticky bit. While
the copy is incomplete, only its owner can read it.
Sizes are in bytes, or have the suffix K, M or G (powers of 1024). Rates are in bits per second, or have the
suffix k, m or g (powers of 1000).

Exit codes:
  0    all receivers have the file
  1    usage error
  2    error of the source or of this machine
  3    some receivers failed or refused
  4    no receiver has the file
  5    all receivers refused (authentication)
  130  interrupted)";

constexpr const char* kAgentFooter =
    R"(The agent writes files under DIR and nowhere else. It runs until it gets SIGINT, SIGTERM or SIGHUP.

Exit codes:
  0    stopped on request
  1    usage error
  2    error of this machine (the address, the directory or the key))";

/// Runs CLI11 and converts its exceptions to values.
Result<std::optional<Information>> run(CLI::App& app, std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());  // CLI11 expects the last argument first.
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    return Information{app.help()};
  } catch (const CLI::CallForVersion&) {
    return Information{std::string(kVersionText) + "\n"};
  } catch (const CLI::ParseError& error) {
    return fail(Errc::invalid_argument, error.what());
  }
  return std::nullopt;
}

/// Stores a parsed value in `into`. Puts the option's name before the text of a parse error.
template <typename T>
Result<void> take(const char* option, Result<T> parsed, T& into) {
  if (!parsed) return fail(parsed.error().code, fmt::format("{}: {}", option, parsed.error().what));
  into = std::move(*parsed);
  return {};
}

std::string joined(const std::vector<std::string>& lists) {
  std::string text;
  for (const auto& list : lists) text += (text.empty() ? "" : ",") + list;
  return text;
}

/// The texts of the options that CLI11 cannot check completely.
struct SendTexts {
  std::vector<std::string> hosts;
  std::vector<std::string> exclude;
  std::string launch = "agent";
  bool resume = false;
  std::string topology;
  std::string algorithm = "auto";
  std::string block_size = "auto";
  std::string connect_within;
  std::string suspect_after;
  std::string limit_rate;
  std::string uplink_rate;
};

void declare(CLI::App& app, FabricChoice& fabric) {
  app.add_option("--fabric", fabric.name,
                 "the fabric that carries the data; auto: the best one that works on this host")
      ->type_name(joined(fabric::fabric_names()))
      ->capture_default_str();
  app.add_option("--device", fabric.device,
                 "the device, in the syntax of the fabric; for dpdk for example: "
                 "\"pci=0000:03:00.0 address=10.0.0.1/24\"")
      ->type_name("TEXT");
  add_dscp(app, fabric.dscp);
  app.add_flag(
      "--encrypt", fabric.encrypt,
      "encrypt all data that leaves a host with AES-256-GCM; an agent with this option refuses all other "
      "transfers");
}

void declare(CLI::App& app, SendOptions& send, SendTexts& texts) {
  app.name("rdmc_bcast");
  app.footer(kSendFooter);
  app.set_version_flag("--version", kVersionText);
  app.add_option("SRC", send.source, "the file to send")->required();
  app.add_option("DEST", send.destination, "the destination path at each receiver, see below")->required();
  app.add_option("-w", texts.hosts, "the hosts to send to")->type_name("HOSTLIST")->allow_extra_args(false);
  app.add_option("-x", texts.exclude, "the hosts of -w to leave out")
      ->type_name("HOSTLIST")
      ->allow_extra_args(false);
  app.add_option("--local", send.local_receivers,
                 "send to N receiver processes on this machine instead of hosts")
      ->type_name("N")
      ->check(number_from(1U, kMaxLocalReceivers));
  app.add_option(
         "--launch", texts.launch,
         "how the receivers are started; agent: they are running already; slurm, pmix: all tasks of the job "
         "run this command, and the first task sends")
      ->type_name("agent|slurm|pmix")
      ->capture_default_str();
  declare(app, send.fabric);
  declare_identity(app, send.identity, "use no key; any process can then act as a receiver");
  app.add_flag("--overwrite", send.overwrite, "replace an existing file (atomically)");
  // --resume is declared so that check_texts() can refuse it with a clear message.
  app.add_flag("--resume", texts.resume)->group("");
  app.add_flag("--dry-run", send.dry_run, "check the source, the receivers and DEST, but send nothing");
  app.add_option(
         "--algorithm", texts.algorithm,
         "which members pass blocks on to which others; auto: the fastest one according to a cost model")
      ->type_name(joined(relay::algorithm_names()) + ",auto")
      ->capture_default_str();
  app.add_option(
         "--topology", texts.topology,
         "a file with lines RACK HOST…; the hosts of a rack pass blocks on among themselves; without this "
         "option, the addresses of the hosts determine the racks")
      ->type_name("FILE");
  app.add_option(
         "--block-size", texts.block_size,
         "the size of a block, 4K to 2M; auto: chosen by the same model, or by the file's size with --local")
      ->type_name("SIZE|auto")
      ->capture_default_str();
  app.add_option("--uplink-rate", texts.uplink_rate,
                 "the rate of a rack's uplink, for auto; needed if it differs from the rate of a host's link")
      ->type_name("RATE");
  app.add_option("--limit-rate", texts.limit_rate, "the highest rate at which the source sends")
      ->type_name("RATE");
  app.add_option("--connect-within", texts.connect_within,
                 "the time that a host may take to answer at the start; the others wait for it (default 5s)")
      ->type_name("TIME");
  app.add_option("--suspect-after", texts.suspect_after,
                 "a receiver that is silent for this time counts as dead (default 600ms)")
      ->type_name("TIME");
  app.add_flag(
      "--json", send.json,
      "print one JSON object per line on stdout: fabric, plan, progress, straggler, receiver, summary");
}

Result<void> check_block_size(std::uint64_t size) {
  if (size < kMinBlockSize || size > kMaxBlockSize || size % kMinBlockSize != 0)
    return fail(Errc::invalid_argument,
                fmt::format("--block-size: {} is not a multiple of 4K from 4K to 2M", size));
  return {};
}

/// Parses a waiting time from 50 ms to 60 s, if the option was given.
Result<void> take_wait(const char* option, const std::string& text, Duration& into) {
  if (text.empty()) return {};
  if (auto done = take(option, parse_duration(text), into); !done) return done;
  if (into < milliseconds(50) || into > seconds(60))
    return fail(Errc::invalid_argument, fmt::format("{}: '{}' is not between 50ms and 60s", option, text));
  return {};
}

Result<void> check_fabric(const FabricChoice& fabric) {
  const auto known = fabric::fabric_names();
  if (std::ranges::find(known, fabric.name) == known.end())
    return fail(Errc::invalid_argument,
                fmt::format("--fabric: '{}' is unknown; there are {}", fabric.name, joined(known)));
  return {};
}

Result<void> check_texts(SendOptions& send, const SendTexts& texts) {
  if (texts.resume) return fail(Errc::invalid_argument, "--resume is not supported yet");
  if (texts.launch == "ssh")
    return fail(Errc::invalid_argument,
                "--launch ssh is not supported yet; start agents and use --launch agent");
  if (texts.launch == "slurm" || texts.launch == "pmix")
    send.launch = texts.launch;
  else if (texts.launch != "agent")
    return fail(Errc::invalid_argument,
                fmt::format("--launch: '{}' is unknown; there are agent, slurm and pmix", texts.launch));
  if (auto done = check_fabric(send.fabric); !done) return done;
  const auto algorithm = relay::algorithm_of(texts.algorithm);
  if (!algorithm && texts.algorithm != "auto")
    return fail(Errc::invalid_argument, fmt::format("--algorithm: '{}' is unknown; there are {},auto",
                                                    texts.algorithm, joined(relay::algorithm_names())));
  send.algorithm = algorithm;
  if (texts.block_size != "auto") {
    std::uint64_t size = 0;
    if (auto done = take("--block-size", parse_size(texts.block_size), size); !done) return done;
    if (auto done = check_block_size(size); !done) return done;
    send.block_size = static_cast<std::uint32_t>(size);
  }
  for (const auto& [option, text, rate] :
       {std::tuple("--limit-rate", &texts.limit_rate, &send.limit_rate),
        std::tuple("--uplink-rate", &texts.uplink_rate, &send.uplink_rate)}) {
    if (text->empty()) continue;
    if (auto done = take(option, parse_rate(*text), rate->emplace()); !done) return done;
  }
  if (auto done = take_wait("--connect-within", texts.connect_within, send.connect_within); !done)
    return done;
  return take_wait("--suspect-after", texts.suspect_after, send.suspect_after);
}

Result<Command> parse_send(const std::vector<std::string>& arguments, const control::ListReader& reader) {
  CLI::App app(
      "Sends one file to many hosts at the same time. Every receiver passes on the blocks that it has.");
  SendOptions send;
  SendTexts texts;
  declare(app, send, texts);
  auto information = run(app, arguments);
  if (!information) return std::unexpected(information.error());
  if (*information) return Command(std::move(**information));

  if (send.source.empty()) return fail(Errc::invalid_argument, "SRC is empty");
  if (send.destination.empty()) return fail(Errc::invalid_argument, "DEST is empty");
  if (auto done = check_texts(send, texts); !done) return std::unexpected(done.error());
  const auto hosts = joined(texts.hosts);
  const auto exclude = joined(texts.exclude);
  if (send.local_receivers > 0) {
    if (!send.launch.empty())
      return fail(Errc::invalid_argument,
                  "--local starts its receivers itself: it does not go with --launch");
    if (!texts.hosts.empty() || !texts.exclude.empty())
      return fail(Errc::invalid_argument, "--local sends to this machine only: it does not go with -w or -x");
    if (!send.identity.is_empty())
      return fail(
          Errc::invalid_argument,
          "--local makes a key of its own: it does not go with --key-file, --certificate or --insecure");
    if (!texts.topology.empty())
      return fail(Errc::invalid_argument,
                  "--local's receivers are on one host: it does not go with --topology");
    if (!send.fabric.device.empty())
      return fail(Errc::invalid_argument,
                  "--local's receivers are on loopback addresses: it does not go with --device");
    return Command(std::move(send));
  }
  if (!send.launch.empty()) {
    if (!texts.hosts.empty() || !texts.exclude.empty() || !texts.topology.empty())
      return fail(
          Errc::invalid_argument,
          fmt::format("--launch {} finds the hosts: it does not go with -w, -x or --topology", send.launch));
    if (send.identity.is_empty()) return Command(std::move(send));  // The default key file is used.
    if (auto done = check_identity(send.identity, send.fabric.encrypt); !done)
      return std::unexpected(done.error());
    return Command(std::move(send));
  }
  if (texts.hosts.empty())
    return fail(Errc::invalid_argument, "no receivers are given: use -w HOSTLIST or --local N");
  if (auto done = check_identity(send.identity, send.fabric.encrypt); !done)
    return std::unexpected(done.error());
  if (auto done = take("-w", control::expand_hostlist(hosts, exclude, reader), send.hosts); !done)
    return std::unexpected(done.error());
  if (!texts.topology.empty()) {
    const auto text = reader(texts.topology);
    if (!text) return fail(text.error().code, "--topology: " + text.error().what);
    auto topology = Topology::parse(*text, texts.topology);
    if (!topology) return fail(topology.error().code, "--topology: " + topology.error().what);
    send.topology = std::move(*topology);
  }
  return Command(std::move(send));
}

Result<Command> parse_agent(const std::vector<std::string>& arguments) {
  CLI::App app("Receives files from rdmc_bcast on this host.");
  AgentOptions agent;
  std::string listen;
  app.name("rdmc_bcast agent");
  app.footer(kAgentFooter);
  app.set_version_flag("--version", kVersionText);
  app.add_option("--listen", listen, "the address to listen at; the default port is 7700")
      ->type_name("ADDR[:PORT]")
      ->required();
  app.add_option("--root", agent.root, "the directory for the received files")->type_name("DIR")->required();
  declare(app, agent.fabric);
  declare_identity(app, agent.identity, "use no key; anyone can then send");
  app.add_flag("--json", agent.json, "print one JSON object per line on stdout for each received file");
  auto information = run(app, arguments);
  if (!information) return std::unexpected(information.error());
  if (*information) return Command(std::move(**information));
  if (auto done = take("--listen", parse_address(listen, control::kDefaultPort), agent.listen); !done)
    return std::unexpected(done.error());
  if (agent.root.empty()) return fail(Errc::invalid_argument, "--root is empty");
  if (auto done = check_fabric(agent.fabric); !done) return std::unexpected(done.error());
  if (auto done = check_identity(agent.identity, agent.fabric.encrypt); !done)
    return std::unexpected(done.error());
  return Command(std::move(agent));
}

Result<Command> parse_keygen(const std::vector<std::string>& arguments) {
  CLI::App app("Makes a new cluster key in a file that only you can read.");
  KeygenOptions keygen;
  app.name("rdmc_bcast keygen");
  app.set_version_flag("--version", kVersionText);
  app.add_option("FILE", keygen.file,
                 "the new key file, or with --rotate the existing one; without FILE, the key is printed");
  app.add_flag("--json", keygen.json, "print the key as {\"key\":\"...\"}");
  app.footer(kKeygenFooter);
  using Step = KeygenOptions::Step;
  app.add_option("--rotate", keygen.rotate, "perform one step of a key change in FILE, see below")
      ->transform(value_of<Step>({{"add", Step::add}, {"promote", Step::promote}, {"retire", Step::retire}}));
  auto information = run(app, arguments);
  if (!information) return std::unexpected(information.error());
  if (*information) return Command(std::move(**information));
  if (keygen.rotate && keygen.file.empty()) return fail(Errc::invalid_argument, "--rotate needs a FILE");
  return Command(keygen);
}

}  // namespace

Result<Command> parse_command_line(const std::vector<std::string>& arguments,
                                   const control::ListReader& reader) {
  if (!arguments.empty()) {
    const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
    if (arguments[0] == "agent") return parse_agent(rest);
    if (arguments[0] == "keygen") return parse_keygen(rest);
    if (arguments[0] == kLocalReceiverArgument && rest.size() == 2) {
      const auto address = parse_address(rest[0], 0);
      if (!address) return std::unexpected(address.error());
      return Command(LocalReceiverOptions{*address, rest[1]});
    }
  }
  return parse_send(arguments, reader);
}

}  // namespace rdmc::bcast

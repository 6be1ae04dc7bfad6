#include "apps/bcast-cli/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
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
    R"(To change the key while everything runs: --rotate add FILE, and give FILE to every host; then promote, and give it
to every host; then retire, and give it to every host. Programs notice. Connections that stand are left alone.)";

constexpr const char* kSendFooter =
    R"(Other uses:
  rdmc_bcast agent --listen ADDR[:PORT] --root DIR --key-file FILE   receive on this host
  rdmc_bcast keygen FILE                                             make a new cluster key
A source named like one of these is written ./agent.

HOSTLIST is pdsh's: web[01-12,20],10.0.0.[2-9]:7701,[2001:db8::1]:7700,^FILE,-web07; the default port is 7700.
On each host DEST is a path relative to the agent's root. With a trailing slash, or where a directory stands, the
copy goes into it under its own name; otherwise DEST is the copy's new name. With --local N the copies are
DEST/0/NAME to DEST/N-1/NAME.
A copy gets its source's permissions, whatever the umask, but no setuid, setgid or sticky bit; while it is incomplete,
only its owner can read it.
Sizes are bytes, with K, M or G as powers of 1024; rates are bits per second, with k, m or g as powers of 1000.

Exit codes:
  0    all receivers have the file
  1    usage
  2    error of the source or of this machine
  3    some receivers failed or refused
  4    all receivers failed
  5    all receivers refused (authentication)
  130  interrupted)";

constexpr const char* kAgentFooter =
    R"(The agent receives files under DIR, and nowhere else, until it is told to stop (SIGINT, SIGTERM).

Exit codes:
  0    stopped on request
  1    usage
  2    error of this machine: the address, the directory or the key)";

/// Runs CLI11 and turns its exceptions into values. `name` is how the program is called in its usage line.
Result<std::optional<Information>> run(CLI::App& app, std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants it
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

/// Puts the name of the option before what its value's parser says.
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

/// Texts of options that need a closer look than CLI11's.
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
  app.add_option("--fabric", fabric.name, "what carries the data; auto: the best that works here")
      ->type_name(joined(fabric::fabric_names()))
      ->capture_default_str();
  app.add_option("--device", fabric.device,
                 "in the fabric's own words, e.g. dpdk: \"pci=0000:03:00.0 address=10.0.0.1/24\"")
      ->type_name("TEXT");
  add_dscp(app, fabric.dscp);
  app.add_flag("--encrypt", fabric.encrypt, "AES-256-GCM for all that leaves a host; an agent: nothing else");
}

void declare(CLI::App& app, SendOptions& send, SendTexts& texts) {
  app.name("rdmc_bcast");
  app.footer(kSendFooter);
  app.set_version_flag("--version", kVersionText);
  app.add_option("SRC", send.source, "the file to send")->required();
  app.add_option("DEST", send.destination, "where each receiver puts it")->required();
  app.add_option("-w", texts.hosts, "the hosts to send to")->type_name("HOSTLIST")->allow_extra_args(false);
  app.add_option("-x", texts.exclude, "hosts to leave out")->type_name("HOSTLIST")->allow_extra_args(false);
  app.add_option("--local", send.local_receivers, "instead of hosts, N receiver processes on this machine")
      ->type_name("N")
      ->check(CLI::Range(1U, kMaxLocalReceivers));
  app.add_option(
         "--launch", texts.launch,
         "how the receivers come to run; agent: they are running already; slurm, pmix: all tasks of the job "
         "run this command, the first one sends")
      ->type_name("agent|slurm|pmix")
      ->capture_default_str();
  declare(app, send.fabric);
  declare_identity(app, send.identity, "no key: anyone may be the other end");
  app.add_flag("--overwrite", send.overwrite, "replace an existing file (atomically)");
  app.add_flag("--resume", texts.resume)->group("");  // known, so that the message is clear
  app.add_flag("--dry-run", send.dry_run, "check the source, the receivers and DEST, and send nothing");
  app.add_option("--algorithm", texts.algorithm,
                 "who passes blocks on to whom; auto: what a model of their costs finds cheapest")
      ->type_name(joined(relay::algorithm_names()) + ",auto")
      ->capture_default_str();
  app.add_option("--topology", texts.topology,
                 "lines RACK HOST…: hosts of a rack pass blocks on among themselves; by their addresses, "
                 "unless given")
      ->type_name("FILE");
  app.add_option("--block-size", texts.block_size,
                 "bytes relayed as one, 4K to 2M; auto: by the same model, with --local by the file's size")
      ->type_name("SIZE|auto")
      ->capture_default_str();
  app.add_option("--uplink-rate", texts.uplink_rate,
                 "for auto: what a rack's uplink carries, if that is not what a link does")
      ->type_name("RATE");
  app.add_option("--limit-rate", texts.limit_rate, "the most that the source gives")->type_name("RATE");
  app.add_option("--connect-within", texts.connect_within,
                 "what a host may take to answer at the start, while the others wait (default 5s)")
      ->type_name("TIME");
  app.add_option("--suspect-after", texts.suspect_after,
                 "silence after which a receiver counts as dead (default 600ms)")
      ->type_name("TIME");
  app.add_flag("--json", send.json,
               "one JSON object per line on stdout: fabric, plan, progress, straggler, receiver, summary");
}

Result<void> check_block_size(std::uint64_t size) {
  if (size < kMinBlockSize || size > kMaxBlockSize || size % kMinBlockSize != 0)
    return fail(Errc::invalid_argument,
                fmt::format("--block-size: {} is not a multiple of 4K from 4K to 2M", size));
  return {};
}

/// How long something may take, if the option was given.
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
  CLI::App app("Sends one file to many hosts at once: every receiver passes on what it has.");
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
    if (send.identity.is_empty())
      return Command(std::move(send));  // the key is looked for where it always is
    if (auto done = check_identity(send.identity, send.fabric.encrypt); !done)
      return std::unexpected(done.error());
    return Command(std::move(send));
  }
  if (texts.hosts.empty()) return fail(Errc::invalid_argument, "say where to send: -w HOSTLIST or --local N");
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
  app.add_option("--listen", listen, "the address to serve; the default port is 7700")
      ->type_name("ADDR[:PORT]")
      ->required();
  app.add_option("--root", agent.root, "the directory that files go to")->type_name("DIR")->required();
  declare(app, agent.fabric);
  declare_identity(app, agent.identity, "no key: anyone may send");
  app.add_flag("--json", agent.json, "one JSON object per line on stdout for each file received");
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
  CLI::App app("Makes a new cluster key, in a file that only you can read.");
  KeygenOptions keygen;
  app.name("rdmc_bcast keygen");
  app.set_version_flag("--version", kVersionText);
  app.add_option("FILE", keygen.file, "a new file for the key; without it, the key is printed");
  app.add_flag("--json", keygen.json, "print it as {\"key\":\"...\"}");
  app.footer(kKeygenFooter);
  const std::map<std::string, KeygenOptions::Step> steps{{"add", KeygenOptions::Step::add},
                                                         {"promote", KeygenOptions::Step::promote},
                                                         {"retire", KeygenOptions::Step::retire}};
  app.add_option("--rotate", keygen.rotate, "a step of changing the key in FILE")
      ->type_name("add|promote|retire")
      ->transform(CLI::Validator(CLI::CheckedTransformer(steps)).description(""));
  auto information = run(app, arguments);
  if (!information) return std::unexpected(information.error());
  if (*information) return Command(std::move(**information));
  if (keygen.rotate && keygen.file.empty()) return fail(Errc::invalid_argument, "--rotate wants a FILE");
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

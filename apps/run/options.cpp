#include "apps/run/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <fstream>
#include <set>
#include <sstream>

#include "apps/program/output.hpp"
#include "apps/run/run_state.hpp"
#include "apps/units/option_values.hpp"
#include "lib/replica/assignment.hpp"
#include "lib/replica/verification.hpp"

namespace rdmc::run {
namespace {

namespace setting = replica::option;

/// The first lines of the help, which CLI11 would not write for a program with a command after its options.
class Usage : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: rdmc_run [OPTIONS] PROGRAM [ARGS...]\n       rdmc_run ps [--json]\n\n";
  }
};

std::optional<std::uint32_t> number_of(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Result<std::string> content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  if (!file || !(content << file.rdbuf())) return fail_errno(path, errno != 0 ? errno : EIO);
  return content.str();
}

std::variant<RunOptions, ListOptions, EndNow> parse_list(int argc, char** argv) {
  ListOptions options;
  CLI::App app{"Lists the runs of this user on this machine that have not ended.", "rdmc_run ps"};
  app.add_flag("--json", options.json, "print one JSON object instead of a table");
  try {
    app.parse(argc - 1, argv + 1);
  } catch (const CLI::ParseError& error) {
    return EndNow{app.exit(error) == 0 ? 0 : kCannotStart};
  }
  return options;
}

/// Returns an error text if `list` has another word than those of --agree.
std::string check_agree(const std::string& list) {
  static const std::set<std::string> kWords{"time", "random", "tests"};
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');)
    if (!kWords.contains(word)) return "'" + word + "' is not one of time, random and tests";
  return list.empty() ? "the list is empty" : "";
}

/// Returns an error text if `list` is not a list for --verify-except.
std::string check_exceptions(const std::string& list) {
  if (list.size() > replica::kMostOptionBytes) return "the list is too long";
  replica::Verification ignored;
  const auto added = add_exceptions(ignored, list);
  return added ? "" : added.error().what;
}

}  // namespace

Result<replica::Layout> layout_of_map(std::string_view map, std::uint32_t ranks, std::uint32_t degree) {
  if (ranks > replica::Layout::kMostProcesses) return replica::Layout::uniform(ranks, degree);
  std::vector<std::uint32_t> degrees(ranks, degree);
  std::set<std::uint32_t> named;
  std::istringstream lines{std::string(map)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string range, its_degree, rest;
    if (!(words >> range)) continue;
    const auto wrong = [&](const std::string& why) {
      return fail(Errc::invalid_argument, fmt::format("line {} of the replica map: {}", number, why));
    };
    if (!(words >> its_degree) || (words >> rest)) return wrong("a line has a rank or a range, and a degree");
    const auto dash = range.find('-');
    const auto first = number_of(std::string_view(range).substr(0, dash));
    const auto last = dash == range.npos ? first : number_of(std::string_view(range).substr(dash + 1));
    const auto wanted = number_of(its_degree);
    if (!first || !last || *first > *last) return wrong("'" + range + "' is not a range of ranks");
    if (*last >= ranks) return wrong(fmt::format("there is no rank {}", *last));
    if (!wanted || *wanted == 0) return wrong("'" + its_degree + "' is not a degree");
    for (std::uint32_t rank = *first; rank <= *last; ++rank) {
      if (!named.insert(rank).second) return wrong(fmt::format("rank {} is named twice", rank));
      degrees[rank] = *wanted;
    }
  }
  return replica::Layout::of(std::move(degrees));
}

std::variant<RunOptions, ListOptions, EndNow> parse_command_line(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "ps") return parse_list(argc, argv);
  RunOptions options;
  std::uint32_t ranks = 0, degree = 2;
  std::string map_file, agree, verify, exceptions, action, fabric, failures;
  std::uint64_t lag = 0;
  bool strict = false, checks_determinism = false;
  int runs = 5;
  CLI::App app{
      "Starts the ranks of a program on this machine. Each rank is started several times, as replicas, so "
      "that "
      "the program continues when a replica dies. The standard output of the replicas of a rank is printed "
      "once. The standard input goes to all replicas of rank 0.",
      "rdmc_run"};
  app.formatter(std::make_shared<Usage>());
  app.set_version_flag("--version", "rdmc_run " RDMC_VERSION);
  app.prefix_command();
  app.add_option("-n", ranks, "the number of ranks")->required()->check(number_from(1U))->type_name("RANKS");
  app.add_option("-r", degree, "the degree: the number of replicas of each rank")
      ->check(number_from(1U))
      ->capture_default_str()
      ->type_name("DEGREE");
  app.add_option("--protocol", options.protocol, "how the replicas of a rank stay equal")
      ->default_str("sdr")
      ->check(one_of({"sdr", "mirror", "leader", "sender-forwarding", "receiver-forwarding"}));
  app.add_option("--replica-map", map_file,
                 "a file with lines such as '0 3' or '1-7 1': ranks, and their degree instead of DEGREE")
      ->type_name("FILE");
  app.add_option("--fabric", fabric, "the fabric of the messages between the processes; default: auto");
  app.add_flag("--strict", strict,
               "complete each send only when all other replicas know that it has arrived");
  CLI::Option* const lag_option =
      app.add_option("--lag", lag, "how far a shadow may be behind its main")->transform(size_value());
  app.add_option("--agree", agree,
                 "what the replicas must agree on because it can differ between them: a list of time, random "
                 "and tests")
      ->check(check_agree)
      ->type_name("LIST");
  CLI::Option* const verify_option =
      app.add_option(
             "--verify", verify,
             "compare the content of the messages of the replicas by a hash. Their lengths are always "
             "compared")
          ->check(one_of({"hash"}));
  app.add_option("--verify-except", exceptions,
                 "do not compare the content of these messages: a list of tag=N and communicator=N")
      ->check(check_exceptions)
      ->needs(verify_option)
      ->type_name("LIST");
  app.add_option("--verify-action", action,
                 "what happens when the content differs: end the run, or report the difference and go on")
      ->check(one_of({"end", "report"}))
      ->needs(verify_option)
      ->default_str("end");
  CLI::Option* const check = app.add_flag(
      "--check-determinism", checks_determinism,
      "run the program several times without replicas, with messages in other orders, and report whether its "
      "sends are the same, so that it can have replicas. Its standard output is not printed, and it reads no "
      "input");
  app.add_option("--runs", runs, "the number of runs of --check-determinism")
      ->check(number_from(2, 1000))
      ->needs(check)
      ->capture_default_str()
      ->type_name("RUNS");
  app.add_option(
         "--inject-failures", failures,
         "kill replicas at random, to test a program: a number of kills, about 10 in a second, or a rate "
         "such as 0.5/s; ':SEED' after it chooses other victims and times. A rank always keeps a "
         "replica")
      ->check([](const std::string& text) {
        const auto parsed = parse_failures(text);
        return parsed ? std::string() : parsed.error().what;
      })
      ->type_name("SPEC");
  app.add_flag("--respawn,!--no-respawn", options.respawns,
               "replace replicas that have died (the default); --no-respawn switches it off");
  app.add_flag("--label", options.label, "print 'RANK: ' before each line of the standard output");
  app.add_flag("--json", options.json,
               "print one JSON object on each line of stdout, for each event and line");
  app.footer(
      "Everything from PROGRAM on is the command of the ranks. 'rdmc_run ps' lists your runs; a program "
      "with\n"
      "this name is written ./ps. SIGINT and SIGTERM end the run, SIGUSR1 and SIGUSR2 are passed on.\n\n"
      "Exit codes:\n"
      "  0-123  the highest exit code of a rank, or the code with which the program was aborted\n"
      "  124    all replicas of a rank were lost\n"
      "  125    the run could not be started: wrong usage, or the program cannot be executed\n"
      "  126    the replicas of a rank have not sent the same messages, or --check-determinism has found\n"
      "         that a rank has not sent the same messages in two runs\n"
      "  130    interrupted by a signal");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return EndNow{app.exit(error) == 0 ? 0 : kCannotStart};
  }
  options.command = app.remaining();
  if (!options.command.empty() && options.command.front() == "--")
    options.command.erase(options.command.begin());
  else if (!options.command.empty() && options.command.front().starts_with('-'))
    return EndNow{complain("there is no option " + options.command.front(), kCannotStart)};
  if (options.command.empty()) return EndNow{complain("the program is missing; see --help", kCannotStart)};

  if (options.protocol.empty()) options.protocol = "sdr";
  const auto set = [&](std::string_view key, const std::string& value) {
    if (!value.empty()) options.settings.emplace(key, value);
  };
  set(setting::kStrict, strict ? "1" : "");
  set(setting::kLag, lag_option->empty() ? "" : std::to_string(lag));
  set(setting::kAgree, agree);
  set(setting::kVerify, verify);
  set(setting::kVerifyExcept, exceptions);
  if (!failures.empty()) options.failures = *parse_failures(failures);
  options.ignores_content = action == "report";
  set(setting::kFabric, fabric);
  auto map = map_file.empty() ? Result<std::string>() : content_of(map_file);
  auto layout =
      map ? layout_of_map(*map, ranks, degree) : Result<replica::Layout>(std::unexpected(map.error()));
  if (!layout) return EndNow{complain(layout.error(), kCannotStart)};
  options.layout = std::move(*layout);
  if (checks_determinism) {
    options.runs = runs;
    options.layout = *replica::Layout::uniform(ranks, 1);
  }
  return options;
}

}  // namespace rdmc::run

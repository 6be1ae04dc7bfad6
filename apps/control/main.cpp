// rdmc_control: shows and changes the views of a cluster, and runs a node of the store that keeps them. Exit
// status: 0 if everything is done, 1 for wrong usage, 2 if the store cannot be reached, refuses, or cannot be
// run, 3 if there is no such group or member, 4 if `member` was removed from the group.
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "apps/control/member.hpp"
#include "apps/control/serve.hpp"
#include "apps/control/store_session.hpp"
#include "apps/control/view_json.hpp"
#include "apps/program/output.hpp"
#include "apps/program/printer.hpp"
#include "apps/program/stop_signals.hpp"
#include "apps/units/identity_options.hpp"
#include "apps/units/option_values.hpp"
#include "controlplane/store/survivor.hpp"
#include "controlplane/view/messages.hpp"

namespace {

using namespace rdmc;
using namespace rdmc::control_app;

constexpr int kDone = 0, kUsage = 1, kFailed = 2, kNotFound = 3, kRemoved = 4;
/// The number of attempts to remove a member from a view that others change at the same time.
constexpr int kRemovals = 20;
/// The interval at which `watch` reads the view again, because a watch notification may be lost.
constexpr int kRereadMs = 2000;
/// The time that the program may take to write its last lines.
constexpr Duration kLastWords = milliseconds(500);

struct Options {
  StoreChoice choice;
  bool json = false;
  std::string group, member;
  std::uint64_t count = 0;
  bool force = false;
};

int failed(const Error& error) {
  return complain(error, error.code == Errc::not_found ? kNotFound : kFailed);
}

std::string text_of(const Options& options, const std::string& group, const view::View& view, bool members) {
  if (options.json) return json_line(json_of(group, view));
  std::string text =
      fmt::format("{}: epoch {}, {} members", group, value_of(view.epoch), view.members.size());
  for (const view::Member& member : view.members)
    if (members)
      text += fmt::format("\n  {} {} {} since epoch {}", id_text(member.id), to_string(member.address),
                          member.name, value_of(member.since));
  return text + "\n";
}

void print(const Options& options, const std::string& group, const view::View& view, bool members) {
  fmt::print("{}", text_of(options, group, view, members));
}

int views(const Options& options, StoreSession& store) {
  const auto groups = store.list();
  if (!groups) return failed(groups.error());
  for (const auto& [group, view] : *groups)
    if (!rdmc::view::is_claim(group)) print(options, group, view, false);
  return kDone;
}

Result<view::View> known_view(const Options& options, StoreSession& store) {
  auto view = store.read(options.group);
  if (view && view->epoch == Epoch{}) return fail(Errc::not_found, "no group '" + options.group + "'");
  return view;
}

int members(const Options& options, StoreSession& store) {
  const auto view = known_view(options, store);
  if (!view) return failed(view.error());
  print(options, options.group, *view, true);
  return kDone;
}

/// Returns the member with this id or address. If there is none, returns the only member with this name.
Result<view::MemberId> member_of(const view::View& view, const std::string& text) {
  const auto has_it = [&](const view::Member& member) {
    return id_text(member.id) == text || to_string(member.address) == text;
  };
  const auto named = std::ranges::find_if(view.members, has_it);
  if (named != view.members.end()) return named->id;
  const auto count = std::ranges::count(view.members, text, &view::Member::name);
  if (count == 1) return std::ranges::find(view.members, text, &view::Member::name)->id;
  if (count == 0) return fail(Errc::not_found, "no member '" + text + "'");
  return fail(Errc::invalid_argument,
              std::to_string(count) + " members are called '" + text + "': name one by its id or address");
}

/// Removes a member by changing the view in the store. The members learn of it from the store.
int remove(const Options& options, StoreSession& store) {
  // At first, `text` is the id, the address or the name that the user gave. After the first attempt it is the
  // id of the member that was found. So a later attempt cannot remove another process that has joined under
  // the same name meanwhile.
  std::string text = options.member;
  for (int attempt = 0; attempt < kRemovals; ++attempt) {
    auto view = known_view(options, store);
    if (!view) return failed(view.error());
    const auto member = member_of(*view, text);
    if (!member)
      return failed({member.error().code, "in group '" + options.group + "': " + member.error().what});
    text = id_text(*member);
    *view = rdmc::view::without(*view, *member);
    const auto result = store.swap(options.group, *view);
    if (!result) return failed(result.error());
    if (!result->swapped) continue;
    print(options, options.group, *view, true);
    return kDone;
  }
  return failed(
      {Errc::would_block, "the view of '" + options.group + "' changes faster than it can be changed"});
}

int survivor(const Options& options) {
  const auto node = parse_address(options.choice.store, kStorePort);
  if (!node) return failed({Errc::invalid_argument, "--store names the one node that survives"});
  const auto security = control::security_of(options.choice.identity);
  if (!security) return failed(security.error());
  const auto loop = control::ControlLoop::create();
  if (!loop) return failed(loop.error());
  const auto named = store::name_survivor(**loop, *node, {.security = *security}, options.force);
  return named ? kDone : failed(named.error());
}

/// Prints each view, beginning with the current view, until `--count` views are printed or a signal arrives.
int watch(const Options& options, StoreSession& store, Printer& printer, int signals) {
  const Descriptor hinted(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  store.watch(options.group, [fd = hinted.get()](std::optional<Epoch>) { ::eventfd_write(fd, 1); });
  std::uint64_t printed = 0;
  for (Epoch last{};;) {
    const auto view = store.read(options.group);
    if (!view) {
      printer.print(STDERR_FILENO, complaint(view.error().what));
    } else if (view->epoch > last) {
      last = view->epoch;
      printer.print(STDOUT_FILENO, text_of(options, options.group, *view, true));
      if (++printed == options.count) return kDone;
    }
    pollfd events[] = {{signals, POLLIN, 0}, {hinted.get(), POLLIN, 0}};
    ::poll(events, 2, kRereadMs);
    if (events[0].revents != 0) return kDone;
    eventfd_t ignored;
    ::eventfd_read(hinted.get(), &ignored);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Shows and changes the views of a cluster, and runs a node of the store that keeps them."};
  app.set_version_flag("--version", "rdmc_control " RDMC_VERSION);
  app.footer(
      "Exit codes:\n  0    done\n  1    wrong usage\n  2    the store cannot be reached, refuses, or cannot "
      "be "
      "run\n"
      "  3    no such group or member\n"
      "  4    removed from the group by the others (member)");
  app.require_subcommand(1);
  app.fallthrough();
  app.add_flag("--json", options.json, "print one JSON object on each line of stdout");
  app.add_option("--store", options.choice.store,
                 "the store: ADDR[:7701],… of its nodes, or etcd:ADDR[:2379],…")
      ->capture_default_str();
  declare_identity(app, options.choice.identity, "run without a key: anyone may read and change the views");
  const auto with_group = [&](const char* name, const char* what) {
    CLI::App* const command = app.add_subcommand(name, what);
    command->add_option("GROUP", options.group)->required()->check([](const std::string& group) {
      const auto valid = rdmc::view::check_group(group);
      return valid ? std::string() : valid.error().what;
    });
    return command;
  };
  CLI::App* const views_command =
      app.add_subcommand("views", "lists every group with its epoch and its number of members");
  CLI::App* const members_command = with_group("members", "lists the members of a group");
  CLI::App* const remove_command = with_group("remove", "makes a view without one member");
  remove_command
      ->add_option("MEMBER", options.member, "the member's id, address or name, as 'members' prints them")
      ->required();
  CLI::App* const watch_command =
      with_group("watch", "prints each view of a group, beginning with the current one");
  watch_command->add_option("--count", options.count, "end after this number of views");
  CLI::App* const serve_command = app.add_subcommand("serve", "runs a node of the store until a signal");
  ServeOptions node;
  bool memory = false;
  CLI::App* const kept = serve_command->add_option_group("kept", "where the node keeps the views");
  kept->add_option("--directory", node.directory, "in this directory");
  kept->add_flag(
      "--memory", memory,
      "in memory; after a restart, one node of three gets them from the two others, and a single node "
      "starts with no views");
  kept->require_option(1);
  serve_command->add_option(
      "--listen", node.listen,
      fmt::format("ADDR[:PORT] on which the node listens; default: its address in --nodes, or {}", kAlone));
  serve_command->add_option("--nodes", node.nodes,
                            "ADDR[:7701],… of all three nodes; must be the same for each node");
  serve_command->add_option("--self", node.self, "the index of this node in --nodes, from 0");
  CLI::App* const survivor_command = app.add_subcommand(
      "survivor",
      "after two of three nodes have lost their state: makes the store continue with the state of --store");
  survivor_command->add_flag(
      "--force", options.force,
      "even if a majority of the nodes answers; state that only those nodes keep is lost");
  MemberOptions member;
  CLI::App* const member_command =
      with_group("member", "takes part in a group until a signal, and prints the events");
  member_command->add_option("--name", member.name, "name of the member, for people");
  member_command->add_option("--listen", member.listen, "ADDR[:PORT] where the other members find this one")
      ->capture_default_str();
  member_command->add_option("--fabric", member.fabric, "fabric of the data path")->capture_default_str();
  member_command->add_flag(
      "--encrypt", member.encrypt,
      "AES-256-GCM for all data that leaves the host on the data path; all members must use it, or none");
  member_command
      ->add_option(
          "--lease", member.lease_ms,
          "request a lease of this many ms from the others, 20 to 1000, normally 100 to 200; 0: no lease")
      ->check(number_from(view::kMinLease.ns / 1'000'000, view::kMaxLease.ns / 1'000'000, true));
  member_command
      ->add_option("--beat", member.beat_ms,
                   "send and write data to the others at this interval in ms; 0: never")
      ->capture_default_str();
  for (const auto& [command, metrics] :
       {std::pair(serve_command, &node.metrics), std::pair(member_command, &member.metrics)})
    command->add_option("--metrics", *metrics,
                        "[ADDR:]PORT of the metrics for Prometheus; on loopback by default");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  // A member and a node of the store always need credentials. The other commands do not need any if the store
  // is etcd.
  const bool etcd =
      options.choice.store.starts_with("etcd:") && !serve_command->parsed() && !member_command->parsed();
  if (!etcd || !options.choice.identity.is_empty()) {
    if (const auto valid = check_identity(options.choice.identity, member.encrypt); !valid) {
      return complain(valid.error(), kUsage);
    }
  }
  if (!serve_command->parsed() && !member_command->parsed() && !watch_command->parsed()) {
    // A signal ends these commands at once.
    if (survivor_command->parsed()) return survivor(options);
    const auto store = StoreSession::open(options.choice);
    if (!store) return failed(store.error());
    if (views_command->parsed()) return views(options, **store);
    return members_command->parsed() ? members(options, **store) : remove(options, **store);
  }
  auto signals = StopSignals::block();
  if (!signals) return failed(signals.error());
  const auto printer = Printer::start();
  if (!printer) return failed(printer.error());
  const auto run = [&]() -> int {
    if (serve_command->parsed()) {
      node.identity = options.choice.identity;
      node.json = options.json;
      return complain(serve(node, **printer, signals->descriptor()), kFailed);
    }
    const auto store = StoreSession::open(options.choice);
    if (!store) return failed(store.error());
    if (watch_command->parsed()) return watch(options, **store, **printer, signals->descriptor());
    member.group = options.group;
    member.identity = options.choice.identity;
    member.json = options.json;
    const auto removed = take_part(**store, member, **printer, signals->descriptor());
    if (!removed) return failed(removed.error());
    return *removed ? kRemoved : kDone;
  };
  const int code = run();
  // The last lines are written, but not for a reader that has stopped reading.
  signals->end_within(kLastWords, code);
  return code;
}

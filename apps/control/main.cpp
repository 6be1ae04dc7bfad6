// rdmc_control: the views of a cluster, for operators and scripts, and a node of the store that keeps them.
// Exit status: 0 done, 1 usage, 2 the store cannot be reached, refuses, or cannot be run, 3 no such group or
// member, 4 removed from the group.
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>

#include "apps/control/member.hpp"
#include "apps/control/printer.hpp"
#include "apps/control/serve.hpp"
#include "apps/control/store_session.hpp"
#include "apps/control/view_json.hpp"
#include "apps/units/identity_options.hpp"
#include "controlplane/store/survivor.hpp"
#include "controlplane/view/messages.hpp"

namespace {

using namespace rdmc;
using namespace rdmc::control_app;

constexpr int kDone = 0, kUsage = 1, kFailed = 2, kNotFound = 3, kRemoved = 4;
/// Attempts to remove a member from a view that others change meanwhile.
constexpr int kRemovals = 20;
/// A watch may miss a change.
constexpr int kRereadMs = 2000;

struct Options {
  StoreChoice choice;
  bool json = false;
  std::string group, member;
  std::uint64_t count = 0;
  bool force = false;
};

std::string complaint(const Error& error) {
  return "rdmc_control: " + error.what;
}

int complain(const Error& error) {
  fmt::print(stderr, "{}\n", complaint(error));
  return error.code == Errc::not_found ? kNotFound : kFailed;
}

std::string text_of(const Options& options, const std::string& group, const view::View& view, bool members) {
  if (options.json) return line_of(json_of(group, view));
  std::string text =
      fmt::format("{}: epoch {}, {} members", group, value_of(view.epoch), view.members.size());
  for (const view::Member& member : view.members)
    if (members)
      text += fmt::format("\n  {} {} {} since epoch {}", id_text(member.id), to_string(member.address),
                          member.name, value_of(member.since));
  return text;
}

void print(const Options& options, const std::string& group, const view::View& view, bool members) {
  fmt::print("{}\n", text_of(options, group, view, members));
}

int views(const Options& options, StoreSession& store) {
  const auto groups = store.list();
  if (!groups) return complain(groups.error());
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
  if (!view) return complain(view.error());
  print(options, options.group, *view, true);
  return kDone;
}

/// The member with that id or address, or else the only one of that name.
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

/// The view is changed in the store, as members change it: they learn it there.
int remove(const Options& options, StoreSession& store) {
  std::string text = options.member;  // its id, once it was found: a process of its name may join meanwhile
  for (int attempt = 0; attempt < kRemovals; ++attempt) {
    auto view = known_view(options, store);
    if (!view) return complain(view.error());
    const auto member = member_of(*view, text);
    if (!member)
      return complain({member.error().code, "in group '" + options.group + "': " + member.error().what});
    text = id_text(*member);
    *view = rdmc::view::without(*view, *member);
    const auto result = store.swap(options.group, *view);
    if (!result) return complain(result.error());
    if (!result->swapped) continue;
    print(options, options.group, *view, true);
    return kDone;
  }
  return complain(
      {Errc::would_block, "the view of '" + options.group + "' changes faster than it can be changed"});
}

int survivor(const Options& options) {
  const auto node = parse_address(options.choice.store, 7701);
  if (!node) return complain({Errc::invalid_argument, "--store names the one node that survives"});
  const auto security = control::security_of(options.choice.identity);
  if (!security) return complain(security.error());
  const auto loop = control::ControlLoop::create();
  if (!loop) return complain(loop.error());
  const auto named = store::name_survivor(**loop, *node, {.security = *security}, options.force);
  return named ? kDone : complain(named.error());
}

/// One line for each view, from the one that stands; `--count` of them, or until a signal.
int watch(const Options& options, StoreSession& store, int signals) {
  const Descriptor hinted(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  store.watch(options.group, [fd = hinted.get()](std::optional<Epoch>) { ::eventfd_write(fd, 1); });
  // A signal ends it whether or not anybody reads.
  Printer lines(STDOUT_FILENO), errors(STDERR_FILENO);
  std::uint64_t printed = 0;
  for (Epoch last{};;) {
    const auto view = store.read(options.group);
    if (!view) {
      errors.print(complaint(view.error()));
    } else if (view->epoch > last) {
      last = view->epoch;
      lines.print(text_of(options, options.group, *view, true));
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
  CLI::App app{"The views of a cluster, and a node of the store that keeps them."};
  app.set_version_flag("--version", "rdmc_control " RDMC_VERSION);
  app.footer(
      "Exit codes:\n  0    done\n  1    usage\n  2    the store cannot be reached, refuses, or cannot be "
      "run\n"
      "  3    no such group or member\n"
      "  4    removed from the group by the others (member)");
  app.require_subcommand(1);
  app.fallthrough();
  app.add_flag("--json", options.json, "one JSON object a line on stdout");
  app.add_option("--store", options.choice.store, "ADDR[:7701],… of its nodes, or etcd:ADDR[:2379],…")
      ->capture_default_str();
  declare_identity(app, options.choice.identity, "without a key: anyone may read and change the views");
  const auto with_group = [&](const char* name, const char* what) {
    CLI::App* const command = app.add_subcommand(name, what);
    command->add_option("GROUP", options.group)->required()->check([](const std::string& group) {
      const auto valid = rdmc::view::check_group(group);
      return valid ? std::string() : valid.error().what;
    });
    return command;
  };
  CLI::App* const views_command =
      app.add_subcommand("views", "every group, its epoch and how many are in it");
  CLI::App* const members_command = with_group("members", "who is in a group");
  CLI::App* const remove_command = with_group("remove", "makes a view without a member");
  remove_command->add_option("MEMBER", options.member, "its id, address or name, as members prints them")
      ->required();
  CLI::App* const watch_command =
      with_group("watch", "prints each view of a group, from the one that stands");
  watch_command->add_option("--count", options.count, "ends after so many");
  CLI::App* const serve_command = app.add_subcommand("serve", "runs a node of the store until a signal");
  ServeOptions node;
  bool memory = false;
  CLI::App* const kept = serve_command->add_option_group("kept", "where it keeps the views");
  kept->add_option("--directory", node.directory, "on the disk");
  kept->add_flag("--memory", memory,
                 "in memory: after a restart, one of three gets them from the two others, and one alone "
                 "starts with none");
  kept->require_option(1);
  serve_command->add_option("--listen", node.listen,
                            fmt::format("ADDR[:PORT]; its address among --nodes, or {}", kAlone));
  serve_command->add_option("--nodes", node.nodes,
                            "ADDR[:7701],… of three, for each other; the same for all of them");
  serve_command->add_option("--self", node.self, "which of --nodes it is, from 0");
  CLI::App* const survivor_command = app.add_subcommand(
      "survivor",
      "after two of three nodes have lost their state: the store goes on with what --store keeps");
  survivor_command->add_flag("--force", options.force,
                             "even if a majority of the nodes answers: what only they keep is lost");
  MemberOptions member;
  CLI::App* const member_command =
      with_group("member", "takes part in a group until a signal, and prints what becomes of it");
  member_command->add_option("--name", member.name, "for people");
  member_command->add_option("--listen", member.listen, "ADDR[:PORT] where the others find it")
      ->capture_default_str();
  member_command->add_option("--fabric", member.fabric, "of the data path")->capture_default_str();
  member_command->add_flag("--encrypt", member.encrypt,
                           "AES-256-GCM for all of its data path that leaves the host; all members or none");
  member_command
      ->add_option("--lease", member.lease_ms,
                   "asks the others for a lease of so many ms, 20 to 1000, 100 to 200 are meant; 0: none")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{0}) |
              CLI::Range(view::kMinLease.ns / 1'000'000, view::kMaxLease.ns / 1'000'000));
  member_command->add_option("--beat", member.beat_ms, "says and writes something every so many ms; 0: never")
      ->capture_default_str();
  for (const auto& [command, metrics] :
       {std::pair(serve_command, &node.metrics), std::pair(member_command, &member.metrics)})
    command->add_option("--metrics", *metrics,
                        "[ADDR:]PORT of its metrics for Prometheus; on loopback by default");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  // Members and nodes of the store need a key for themselves.
  const bool etcd =
      options.choice.store.starts_with("etcd:") && !serve_command->parsed() && !member_command->parsed();
  if (!etcd || !options.choice.identity.is_empty()) {
    if (const auto valid = check_identity(options.choice.identity, member.encrypt); !valid) {
      fmt::print(stderr, "rdmc_control: {}\n", valid.error().what);
      return kUsage;
    }
  }
  // Blocked before there is any thread where they are waited for; they end everything else at once.
  sigset_t stop;
  sigemptyset(&stop);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&stop, signal);
  if (serve_command->parsed() || member_command->parsed() || watch_command->parsed())
    pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  const Descriptor signals(::signalfd(-1, &stop, SFD_CLOEXEC));
  if (serve_command->parsed()) {
    node.identity = options.choice.identity;
    node.json = options.json;
    fmt::print(stderr, "{}\n", complaint(serve(node, signals.get())));
    return kFailed;
  }
  if (survivor_command->parsed()) return survivor(options);
  const auto store = StoreSession::open(options.choice);
  if (!store) return complain(store.error());
  if (member_command->parsed()) {
    member.group = options.group;
    member.identity = options.choice.identity;
    member.json = options.json;
    const auto removed = take_part(**store, member, signals.get());
    if (!removed) return complain(removed.error());
    return *removed ? kRemoved : kDone;
  }
  if (views_command->parsed()) return views(options, **store);
  if (members_command->parsed()) return members(options, **store);
  if (remove_command->parsed()) return remove(options, **store);
  return watch_command->parsed() ? watch(options, **store, signals.get()) : kUsage;
}

// Implements rdmc_bcast agent, and the receiver processes of --local, which are agents for one transfer.
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>

#include "apps/bcast-cli/agent.hpp"
#include "apps/bcast-cli/commands.hpp"
#include "apps/bcast-cli/local_receivers.hpp"
#include "apps/bcast-cli/reporter.hpp"
#include "apps/program/output.hpp"
#include "apps/program/stop_signals.hpp"
#include "apps/units/units.hpp"
#include "controlplane/connect/identity_watch.hpp"

namespace rdmc::bcast {
namespace {

/// The time that an agent may take to end after it was asked to stop. In this time it ends its receptions,
/// which a hung disk can prevent, and then waits until its last lines are read.
constexpr Duration kStopPatience = seconds(8);
constexpr Duration kAgentOutputPatience = seconds(1);

/// The time after which a receiver of --local ends even if its clean-up hangs. No process may be left behind.
constexpr unsigned kLastResortSeconds = 10;
/// The longest time for which a receiver continues without its sender. It completes the file from the blocks
/// that all receivers have together. Every timeout of a session is shorter, except Timing::patience, which is
/// equal, and Timing::commit_timeout, which is longer.
constexpr Duration kFinishWithin = seconds(300);

std::string json_of(const Reception::Outcome& outcome) {
  auto line = Json::parse(json_line(outcome.event));
  line["event"] = "received";
  line["host"] = outcome.peer;
  line["path"] = outcome.path;
  return rdmc::json_line(line);
}

void report(Reporter& reporter, const Reception::Outcome& outcome) {
  if (outcome.dry_run) return;
  const auto& event = outcome.event;
  reporter.say(event.status == session::Status::ok
                   ? fmt::format("{} from {}: {} in {}", outcome.path, outcome.peer, size_words(event.bytes),
                                 duration_words(event.seconds))
                   : fmt::format("{} from {}: {}", outcome.path, outcome.peer, event.cause));
  reporter.tell(json_of(outcome));
}

void report_refused(Reporter& reporter, const Address& peer, const Error& cause, std::uint64_t others) {
  auto text = fmt::format("refused a sender: {}", cause.what);
  if (cause.what.find(to_string(peer)) == std::string::npos)
    text = fmt::format("refused {}: {}", to_string(peer), cause.what);
  if (others > 0) text += fmt::format(" (and {} others before)", others);
  reporter.say(std::move(text));
}

Result<void> serve(const AgentOptions& options, StopSignals& stop, Reporter& reporter) {
  auto security = control::security_of(options.identity);
  if (!security) return std::unexpected(security.error());
  auto directory = ReceiveDirectory::open(options.root);
  if (!directory) return std::unexpected(directory.error());
  const auto loop = control::ControlLoop::create();
  if (!loop) return std::unexpected(loop.error());
  const auto agent = Agent::start(
      **loop, std::move(*directory), options.listen, *security,
      [&](const Reception::Outcome& outcome) { report(reporter, outcome); },
      [&](const Address& peer, const Error& cause, std::uint64_t others) {
        report_refused(reporter, peer, cause, others);
      },
      kMaxReceptions, options.fabric);
  if (!agent) return std::unexpected(agent.error());
  const control::IdentityWatch identity(**loop, *security, [&](const Result<void>& readable) {
    reporter.say(control::words_about_identity(readable));
  });
  const auto address = to_string((*agent)->address());
  reporter.say(fmt::format("listening on {}; files go to {}{}", address, options.root,
                           options.identity.insecure ? "; without a key, anyone may send" : ""));
  reporter.tell(fmt::format("{{\"event\":\"listening\",\"address\":\"{}\"}}\n", address));
  while (stop.wait() != StopSignals::Event::signal) {
  }
  stop.end_within(kStopPatience, static_cast<int>(ExitCode::local_error));
  return {};
}

Result<void> serve_locally(const LocalReceiverOptions& options) {
  auto stop = StopSignals::block();
  if (!stop) return std::unexpected(stop.error());
  const auto key = control::ClusterKey::load(kKeyDescriptor);
  if (!key) return std::unexpected(key.error());
  auto security = control::TlsContext::create(*key);
  if (!security) return std::unexpected(security.error());
  auto directory = ReceiveDirectory::open(options.directory, ReceiveDirectory::Missing::make);
  if (!directory) return std::unexpected(directory.error());
  const auto loop = control::ControlLoop::create();
  if (!loop) return std::unexpected(loop.error());
  const auto agent = Agent::start(**loop, std::move(*directory), options.listen, std::move(*security), {});
  if (!agent) return std::unexpected(agent.error());
  if (auto reported = report_address(kLinkDescriptor, (*agent)->address()); !reported) return reported;
  // Ctrl-C also reaches the sender. The sender then ends the transfer at every receiver that has not
  // committed yet, and after that it ends the receiver processes. A receiver process gets SIGTERM in two
  // cases: the sender sends it when nothing is left to do, and the kernel sends it when the sender has died.
  // If the sender has died, the receivers finish the transfer without the sender if they can, unless the
  // user has interrupted the sender twice.
  (void)stop->wait(kLinkDescriptor);
  if (!is_abandoned(kLinkDescriptor)) (*agent)->finish(kFinishWithin);
  ::alarm(kLastResortSeconds);
  return {};
}

}  // namespace

ExitCode run_agent(const AgentOptions& options) {
  auto stop = StopSignals::block();
  if (!stop) {
    complain(stop.error());
    return ExitCode::local_error;
  }
  const auto reporter = Reporter::start(options.json);
  if (!reporter) {
    complain(reporter.error());
    return ExitCode::local_error;
  }
  const auto served = serve(options, *stop, **reporter);
  if (!served) (*reporter)->complain(served.error());
  const auto code = served ? ExitCode::success : ExitCode::local_error;
  stop->end_within(kAgentOutputPatience, static_cast<int>(code));
  return code;
}

ExitCode run_local_receiver(const LocalReceiverOptions& options) {
  std::signal(SIGINT, SIG_IGN);
  const auto served = serve_locally(options);
  if (served) return ExitCode::success;
  (void)report_failure(kLinkDescriptor, served.error());
  return ExitCode::local_error;
}

}  // namespace rdmc::bcast

// Implements rdmc_bcast --launch LAUNCHER. Every task of a job runs the same command line. The first task
// sends. Each other task is an agent for one transfer, and can write only at DEST.
#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "apps/bcast-cli/agent.hpp"
#include "apps/bcast-cli/commands.hpp"
#include "apps/program/output.hpp"
#include "apps/program/stop_signals.hpp"
#include "lib/include/rdmc/launch.hpp"

namespace rdmc::bcast {
namespace {

/// The time that one task may start later than another task. The sender uses it in place of the default of
/// --connect-within.
constexpr Duration kStartWithin = seconds(30);
/// A receiver ends if it has been offered no file within this time.
constexpr Duration kOfferWithin = seconds(60);
/// A receiver that has its file waits at most for this time while survivors still need blocks from it.
constexpr Duration kEndOfJobsWithin = seconds(300);
constexpr Duration kEndWithin = seconds(8);

/// The two parts of DEST on a receiver's host: the directory that its agent is confined to, and the
/// destination in this directory.
struct Target {
  std::string root;
  std::string destination;
};

Target target_of(const std::string& destination) {
  const auto end = destination.find_last_not_of('/');
  const auto path = std::filesystem::path(destination.substr(0, end == std::string::npos ? 1 : end + 1));
  const auto name = path.filename();
  if (name.empty() || name == "." || name == "..") return {path.string(), "./"};
  const auto parent = path.parent_path();
  return {parent.empty() ? "." : parent.string(), name.string() + (destination.ends_with('/') ? "/" : "")};
}

/// Serves one transfer and returns its result.
Result<void> receive(const SendOptions& options, const Address& listen, StopSignals& stop) {
  auto security = control::security_of(options.identity);
  if (!security) return std::unexpected(security.error());
  auto directory =
      ReceiveDirectory::open(target_of(options.destination).root, ReceiveDirectory::Missing::make);
  if (!directory) return std::unexpected(directory.error());
  const auto loop = control::ControlLoop::create();
  if (!loop) return std::unexpected(loop.error());
  std::optional<Reception::Outcome> outcome;  // used on the loop's thread
  const auto agent = Agent::start(
      **loop, std::move(*directory), listen, std::move(*security),
      [&](const Reception::Outcome& ended) {
        outcome = ended;
        stop.notify();
      },
      {}, 1, options.fabric);
  if (!agent) return std::unexpected(agent.error());
  const auto too_late = (*loop)->after(kOfferWithin, [&] {
    if (!outcome && !(*agent)->is_busy()) stop.notify();
  });
  if (stop.wait() == StopSignals::Event::signal) {
    (*agent)->stop();
    return fail(Errc::cancelled, "interrupted");
  }
  const auto ended = (*loop)->call([&] { return outcome; });
  if (!ended)
    return fail(Errc::timed_out, fmt::format("no task has sent a file to {} in time", to_string(listen)));
  (*agent)->finish(kEndOfJobsWithin);
  if (ended->event.status != session::Status::ok)
    return fail(Errc::peer_failed, fmt::format("{}: {}", ended->path, ended->event.cause));
  return {};
}

ExitCode run_receiver(const SendOptions& options, const Address& listen) {
  auto stop = StopSignals::block();
  if (!stop) {
    complain(stop.error());
    return ExitCode::local_error;
  }
  const auto received = receive(options, listen, *stop);
  stop->end_within(kEndWithin, static_cast<int>(ExitCode::local_error));
  if (received) return ExitCode::success;
  complain(received.error());
  return received.error().code == Errc::cancelled ? ExitCode::interrupted : ExitCode::local_error;
}

}  // namespace

ExitCode run_launched(SendOptions options) {
  const control::CertificateFiles& files = options.identity.certificates;
  const auto job = launched_job({.launcher = options.launch,
                                 .key_file = options.identity.key_file,
                                 .certificates = {.certificate = files.certificate,
                                                  .private_key = files.private_key,
                                                  .authority = files.authority},
                                 .insecure = options.identity.insecure});
  if (!job) {
    complain(job.error());
    return ExitCode::local_error;
  }
  options.identity.key_file = job->mesh.key_file;
  const auto ours = static_cast<std::uint32_t>(job->id);
  if (ours != 0) {
    Address listen = job->address;
    listen.port = job->members[ours].port;
    return run_receiver(options, listen);
  }
  if (job->members.size() == 1) {
    complain({Errc::invalid_argument, "the job has one task, and nobody to send to"});
    return ExitCode::usage;
  }
  for (const MeshMember& member : job->members)
    if (member.node != job->id) options.hosts.push_back({member.host, member.port});
  options.destination = target_of(options.destination).destination;
  if (options.connect_within == kDefaultConnectWithin) options.connect_within = kStartWithin;
  return run_send(options);
}

}  // namespace rdmc::bcast

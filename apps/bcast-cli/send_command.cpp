// Implements rdmc_bcast SRC DEST: opens the source, starts the receivers of --local, runs one Sender, and
// reports the result.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "apps/bcast-cli/commands.hpp"
#include "apps/bcast-cli/destination.hpp"
#include "apps/bcast-cli/local_receivers.hpp"
#include "apps/bcast-cli/partial_file.hpp"
#include "apps/program/output.hpp"
#include "apps/program/stop_signals.hpp"
#include "controlplane/auth/random.hpp"

namespace rdmc::bcast {
namespace {

/// The time for reading the remaining output, after a transfer or after the user asked to stop. In this time
/// a slow reader can read everything, and a reader that has stopped does not block the process for ever.
constexpr Duration kOutputPatience = seconds(5);
constexpr Duration kHurriedPatience = seconds(1);

/// The parts of a transfer that are known before any receiver is contacted.
struct Prepared {
  SourceFile source;
  SenderConfig config;
};

/// The signals that stop the sender, and whether one has been received.
struct Stop {
  StopSignals signals;
  bool signalled = false;
};

Error interruption() {
  return {Errc::cancelled, "the sender was interrupted"};
}

/// Returns the rack of each member. The sender has a rack if the file lists this host by its host name.
RackOf racks_of(const Topology& topology, const std::vector<control::Host>& hosts) {
  RackOf racks;
  std::array<char, 256> own{};
  if (::gethostname(own.data(), own.size() - 1) == 0) {
    if (const auto rack = topology.rack_of({own.data()})) racks[session::kRoot] = *rack;
  }
  for (std::uint32_t i = 0; i < hosts.size(); ++i)
    if (const auto rack = topology.rack_of(hosts[i])) racks[session::MemberId{i + 1}] = *rack;
  return racks;
}

/// Returns the properties of the paths that are known before any receiver is connected.
relay::PathParameters paths(const SendOptions& options) {
  relay::PathParameters path = relay::kUnmeasured;
  if (options.limit_rate)
    path.bits_per_second = std::min(path.bits_per_second, static_cast<double>(*options.limit_rate));
  // No member sends faster than its own link. So the links behind an uplink are taken to be at least as fast
  // as the uplink.
  path.uplink_bits_per_second = static_cast<double>(options.uplink_rate.value_or(0));
  path.bits_per_second = std::max(path.bits_per_second, path.uplink_bits_per_second);
  return path;
}

/// The assumed number of receivers of a job while their real number is unknown.
constexpr std::size_t kTasksGuessed = 16;

/// Returns the size of a block. If the result is empty, SourceFile chooses the size by the file's size. With
/// --local that choice is the best one, because the blocks move in the memory of one machine.
std::optional<std::uint32_t> block_size(const SendOptions& options) {
  if (options.block_size || options.local_receivers > 0) return options.block_size;
  std::error_code unreadable;  // Opening the file will report the error.
  const auto bytes = std::filesystem::file_size(options.source, unreadable);
  if (unreadable) return std::nullopt;
  // With --launch the number of the job's tasks is not known yet.
  const auto receivers = options.hosts.empty() ? kTasksGuessed : options.hosts.size();
  const relay::MessageShape message{
      .members = static_cast<std::uint32_t>(receivers + 1), .bytes = bytes, .is_file = true};
  return relay::choose(message, paths(options), {.algorithm = options.algorithm, .block_bytes = {}})
      .block_bytes;
}

Result<Prepared> prepare(const SendOptions& options) {
  auto source = SourceFile::open(options.source, block_size(options));
  if (!source) return std::unexpected(source.error());
  SenderConfig config{.job = {.destination = options.local_receivers > 0 ? "./" : options.destination,
                              .source_name = std::string(base_name(options.source)),
                              .shape = source->shape(),
                              .allocated_bytes = source->allocated_bytes(),
                              .mode = source->permissions(),
                              .overwrite = options.overwrite,
                              .dry_run = options.dry_run,
                              .limit_rate = options.limit_rate,
                              .encrypt = options.fabric.encrypt},
                      .targets = {},
                      .security = control::Insecure{},
                      .connect_within = options.connect_within,
                      .refused_may_come = !options.launch.empty(),
                      .wishes = {.algorithm = options.algorithm.value_or(relay::Algorithm::binomial_pipeline),
                                 .suspect_after = options.suspect_after,
                                 .racks = {}},
                      .auto_paths = {},
                      .fabric = options.fabric};
  for (const auto& host : options.hosts) config.targets.push_back({to_string(host), host.name, host.port});
  if (!options.algorithm) config.auto_paths = paths(options);
  if (options.topology) config.wishes.racks = racks_of(*options.topology, options.hosts);
  if (options.local_receivers == 0) {
    auto security = control::security_of(options.identity);
    if (!security) return std::unexpected(security.error());
    config.security = std::move(*security);
  }
  return Prepared{std::move(*source), std::move(config)};
}

/// Runs the transfer to the targets of `prepared` and waits for its end. `local` has the receivers, if this
/// process started them.
Result<SenderResult> transfer(Prepared& prepared, Reporter& reporter, Stop& stop,
                              const LocalReceivers* local = nullptr) {
  session::SessionId id;
  if (auto filled = control::fill_random(id); !filled) return std::unexpected(filled.error());
  const auto loop = control::ControlLoop::create();
  if (!loop) return std::unexpected(loop.error());
  SenderResult result;
  auto sender =
      Sender::start(**loop, prepared.source, reporter, prepared.config, id, [&](SenderResult ended) {
        result = std::move(ended);
        stop.signals.notify();
      });
  if (!sender) return std::unexpected(sender.error());
  while (stop.signals.wait() == StopSignals::Event::signal) {
    if (stop.signalled) {  // The user has asked twice, so this ends at once.
      if (local != nullptr) local->abandon();
      ::_exit(static_cast<int>(ExitCode::interrupted));
    }
    stop.signalled = true;
    reporter.say("interrupted: telling the receivers");
    (*loop)->post([weak = std::weak_ptr(*sender)] {
      if (const auto running = weak.lock()) running->stop(interruption());
    });
  }
  (*loop)->call([&] { sender->reset(); });
  return result;
}

void add_failure(SenderResult& result, Reporter& reporter, std::string host, std::string cause) {
  result.statuses.push_back(session::Status::failed);
  result.summary.count(session::Status::failed);
  reporter.receiver({.host = std::move(host), .status = session::Status::failed, .cause = std::move(cause)});
}

/// Checks whether DEST/i can be made and has space for the file, without making anything. `bytes` is the
/// space for this copy and all copies with lower numbers.
Result<std::string> foresee_locally(const std::string& directory, const JobDescription& job,
                                    std::uint64_t bytes) {
  std::error_code ignored;
  std::filesystem::path standing = directory;
  while (!std::filesystem::exists(standing, ignored) && standing.has_parent_path() &&
         standing != standing.parent_path())
    standing = standing.parent_path();
  if (!std::filesystem::exists(standing, ignored)) standing = ".";
  const auto receive_directory = ReceiveDirectory::open(standing);
  if (!receive_directory) return std::unexpected(receive_directory.error());
  if (standing == directory)
    return foresee(*receive_directory, {job.destination, job.source_name, job.overwrite}, bytes);
  const auto opened = receive_directory->open_directory({}, ReceiveDirectory::Missing::refuse);
  if (!opened) return std::unexpected(opened.error());
  if (auto fine = check_takes_files(opened->get(), bytes, directory); !fine)
    return std::unexpected(fine.error());
  return directory;
}

std::string local_directory(const std::string& destination, std::uint32_t index) {
  return fmt::format("{}{}{}", destination, destination.ends_with('/') ? "" : "/", index);
}

SenderResult foresee_all_locally(const SendOptions& options, const JobDescription& job, Reporter& reporter) {
  SenderResult result;
  result.summary.dry_run = true;
  for (std::uint32_t index = 0; index < options.local_receivers; ++index) {
    const auto directory = local_directory(options.destination, index);
    const auto path = foresee_locally(directory, job, job.allocated_bytes * (index + 1));
    if (!path) {
      add_failure(result, reporter, directory, path.error().what);
      continue;
    }
    result.statuses.push_back(session::Status::ok);
    result.summary.count(session::Status::ok);
    reporter.receiver({.host = directory, .status = session::Status::ok});
  }
  return result;
}

/// Removes the partial file of a receiver that was killed. Such a receiver could not remove it. Without this,
/// the file would stay until the next transfer of this name.
void remove_stale_partial(const std::string& directory, const JobDescription& job) {
  const auto receive_directory = ReceiveDirectory::open(directory);
  if (!receive_directory) return;
  auto placement = resolve_destination(*receive_directory, {job.destination, job.source_name, true});
  if (placement) (void)PartialFile::claim(std::move(*placement), true, job.mode);
}

/// Reports every receiver as failed, because the user interrupted the transfer before any receiver was asked
/// to take the file.
SenderResult interrupt_all_locally(const SendOptions& options, Reporter& reporter) {
  SenderResult result;
  result.interrupted = interruption();
  for (std::uint32_t index = 0; index < options.local_receivers; ++index)
    add_failure(result, reporter, local_directory(options.destination, index), interruption().what);
  return result;
}

Result<SenderResult> transfer_locally(const SendOptions& options, Prepared& prepared, Reporter& reporter,
                                      Stop& stop) {
  if (options.dry_run) return foresee_all_locally(options, prepared.config.job, reporter);
  const auto key = control::ClusterKey::generate();
  if (!key) return std::unexpected(key.error());
  auto security = control::TlsContext::create(*key);
  if (!security) return std::unexpected(security.error());
  prepared.config.security = std::move(*security);
  auto local =
      LocalReceivers::start(options.local_receivers, options.destination, *key, stop.signals.descriptor());
  if (stop.signals.take()) {
    stop.signalled = true;
    return interrupt_all_locally(options, reporter);
  }
  if (!local) return std::unexpected(local.error());

  SenderResult stillborn;
  std::vector<std::string> directories;
  for (const auto& receiver : local->receivers()) {
    if (!receiver.cause.empty()) {
      add_failure(stillborn, reporter, receiver.directory, receiver.cause);
      continue;
    }
    prepared.config.targets.push_back(
        {receiver.directory, host_string(receiver.address), receiver.address.port});
    directories.push_back(receiver.directory);
  }
  SenderResult result;
  if (!directories.empty()) {
    auto ended = transfer(prepared, reporter, stop, &*local);
    if (!ended) return ended;
    result = std::move(*ended);
  }
  local->stop();
  for (std::size_t i = 0; i < directories.size(); ++i) {
    if (result.statuses.at(i) != session::Status::ok)
      remove_stale_partial(directories[i], prepared.config.job);
  }
  result.summary.failed += stillborn.summary.failed;
  std::ranges::move(stillborn.statuses, std::back_inserter(result.statuses));
  return result;
}

Result<SenderResult> send(const SendOptions& options, Reporter& reporter, Stop& stop) {
  auto prepared = prepare(options);
  if (!prepared) return std::unexpected(prepared.error());
  auto result = options.local_receivers > 0 ? transfer_locally(options, *prepared, reporter, stop)
                                            : transfer(*prepared, reporter, stop);
  if (result) result->summary.bytes = prepared->config.job.shape.size;
  return result;
}

}  // namespace

ExitCode exit_code(const SenderResult& result, bool signalled) {
  if (signalled) return ExitCode::interrupted;
  if (result.named_twice) return ExitCode::usage;
  if (result.interrupted) return ExitCode::local_error;
  const auto& summary = result.summary;
  if (summary.failed == 0 && summary.refused == 0) return ExitCode::success;
  if (summary.ok > 0) return ExitCode::some_failed;
  return summary.failed == 0 ? ExitCode::all_refused : ExitCode::all_failed;
}

ExitCode run_send(const SendOptions& options) {
  auto signals = StopSignals::block();
  if (!signals) {
    complain(signals.error());
    return ExitCode::local_error;
  }
  const auto reporter = Reporter::start(options.json);
  if (!reporter) {
    complain(reporter.error());
    return ExitCode::local_error;
  }
  Stop stop{std::move(*signals)};
  auto result = send(options, **reporter, stop);
  ExitCode code = ExitCode::local_error;
  if (result) {
    if (result->interrupted) result->summary.cause = result->interrupted->what;
    if (result->interrupted && !stop.signalled) (*reporter)->complain(*result->interrupted);
    (*reporter)->summary(result->summary);
    code = exit_code(*result, stop.signalled);
  } else {
    (*reporter)->complain(result.error());
    (*reporter)->tell(json_line(SummaryEvent{.cause = result.error().what}));
  }
  const bool hurried = stop.signalled || stop.signals.take();
  stop.signals.end_within(hurried ? kHurriedPatience : kOutputPatience, static_cast<int>(code));
  return code;
}

}  // namespace rdmc::bcast

#include "apps/run/runs_folder.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <optional>
#include <tuple>

#include "apps/program/output.hpp"
#include "apps/run/run_state.hpp"
#include "controlplane/peer/identity.hpp"
#include "dataplane/base/descriptor.hpp"

namespace rdmc::run {
namespace {

std::string file_name(pid_t pid) {
  return fmt::format("run-{}.json", pid);
}

Json json_of(const RunRecord& record) {
  return {{"program", record.program},
          {"ranks", record.ranks},
          {"replicas", record.replicas},
          {"replicas_alive", record.alive},
          {"pid", record.pid},
          {"started",
           fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(record.started)))}};
}

std::optional<RunRecord> record_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  const Json json = Json::parse(file, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  try {
    return RunRecord{.program = json.at("program"),
                     .ranks = json.at("ranks"),
                     .replicas = json.at("replicas"),
                     .alive = json.at("replicas_alive"),
                     .pid = json.at("pid"),
                     .started = json.at("started_seconds"),
                     .start_ticks = json.at("start_ticks")};
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

Result<std::filesystem::path> runs_folder() {
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  const std::filesystem::path folder = runtime != nullptr && *runtime == '/'
                                           ? std::filesystem::path(runtime) / "rdmc"
                                           : std::filesystem::path(fmt::format("/tmp/rdmc-{}", ::getuid()));
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno(folder.string(), errno);
  struct stat found {};
  if (::lstat(folder.c_str(), &found) != 0) return fail_errno(folder.string(), errno);
  if (!S_ISDIR(found.st_mode) || found.st_uid != ::getuid() || (found.st_mode & 077) != 0)
    return fail(Errc::permission_denied, folder.string() + " is not a folder that only this user can use");
  return folder;
}

Result<void> write_record(const std::filesystem::path& folder, const RunRecord& record) {
  Json json = json_of(record);
  json["started_seconds"] = record.started;
  json["start_ticks"] = record.start_ticks;
  const std::string text = json_line(json);
  const std::filesystem::path path = folder / file_name(record.pid), partial = path.string() + ".new";
  const Descriptor file(::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return fail_errno(partial.string(), errno);
  if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return fail_errno(partial.string(), errno);
  // The record is replaced in one step, so a reader never sees a part of it.
  if (::rename(partial.c_str(), path.c_str()) != 0) return fail_errno(path.string(), errno);
  return {};
}

void remove_record(const std::filesystem::path& folder, pid_t pid) {
  ::unlink((folder / file_name(pid)).c_str());
}

std::vector<RunRecord> read_records(const std::filesystem::path& folder) {
  std::vector<RunRecord> records;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("run-") || !name.ends_with(".json")) continue;
    const auto record = record_in(entry.path());
    const bool is_alive = record && file_name(record->pid) == name &&
                          peer::start_of_process(std::to_string(record->pid)) == record->start_ticks;
    if (is_alive)
      records.push_back(*record);
    else
      std::filesystem::remove(entry.path(), ignored);
  }
  std::ranges::sort(records, {}, [](const RunRecord& one) { return std::tuple(one.started, one.pid); });
  return records;
}

int print_runs(bool as_json) {
  const auto folder = runs_folder();
  if (!folder) return complain(folder.error(), kCannotStart);
  const auto records = read_records(*folder);
  if (as_json) {
    Json runs = Json::array();
    for (const RunRecord& record : records) runs.push_back(json_of(record));
    print_json({{"runs", runs}});
    return 0;
  }
  if (!records.empty())
    fmt::print("{:>8}  {:20}  {:>6}  {:>13}  {}\n", "PID", "STARTED", "RANKS", "ALIVE", "PROGRAM");
  for (const RunRecord& record : records)
    fmt::print("{:>8}  {:20}  {:>6}  {:>13}  {}\n", record.pid, std::string(json_of(record).at("started")),
               record.ranks, fmt::format("{} of {}", record.alive, record.replicas),
               printable(record.program));
  return 0;
}

}  // namespace rdmc::run

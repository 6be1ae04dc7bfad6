// The folder with one file for each run of this user, from which `rdmc_run ps` makes its list. The folder is
// $XDG_RUNTIME_DIR/rdmc, or /tmp/rdmc-UID without this variable. Only the user can read it. A file whose
// rdmc_run has died is recognized, because the process id and the start time in it belong to no process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "dataplane/base/error.hpp"

namespace rdmc::run {

struct RunRecord {
  std::string program;  ///< the command with its arguments
  std::uint32_t ranks = 0, replicas = 0, alive = 0;
  pid_t pid = 0;
  std::int64_t started = 0;       ///< seconds since 1970
  std::uint64_t start_ticks = 0;  ///< the start of the process, as peer::start_of_process returns it

  friend bool operator==(const RunRecord&, const RunRecord&) = default;
};

/// Returns the folder, and makes it if it does not exist. Errors: permission_denied if it belongs to another
/// user, or if others can use it; those of mkdir(2).
Result<std::filesystem::path> runs_folder();

/// Writes the record of this process's run, in place of its last one. Errors: those of the file system.
Result<void> write_record(const std::filesystem::path& folder, const RunRecord& record);
void remove_record(const std::filesystem::path& folder, pid_t pid);
/// Returns the records of the runs that have not ended, oldest first, and removes the files of dead ones.
std::vector<RunRecord> read_records(const std::filesystem::path& folder);

/// Prints the runs. Returns the exit code.
int print_runs(bool as_json);

}  // namespace rdmc::run

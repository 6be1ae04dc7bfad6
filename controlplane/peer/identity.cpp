#include "controlplane/peer/identity.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "dataplane/fabric/host_identity.hpp"

namespace rdmc::peer {
namespace {

/// Returns the number that identifies the namespace. Returns 0 if /proc does not have it.
std::uint64_t namespace_of_self(const std::string& kind) {
  struct stat file {};
  return ::stat(("/proc/self/ns/" + kind).c_str(), &file) == 0 ? file.st_ino : 0;
}

/// True if /proc belongs to the pid namespace of this process. A process that was put into a new pid
/// namespace may still use the /proc of the earlier namespace.
bool is_proc_ours() {
  std::error_code unreadable;
  return std::filesystem::read_symlink("/proc/self", unreadable) == std::to_string(::getpid());
}

}  // namespace

// Reads field 22 of /proc/PID/stat (proc(5)). The second field may contain spaces and parentheses.
std::uint64_t start_of_process(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string text;
  // Reading fails if the process ends meanwhile. An iterator of the stream would then throw an exception, so
  // the iterator is not used.
  std::getline(file, text, '\0');
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return fields ? std::stoull(field) : 0;
}

ProcessIdentity identity_of_self() {
  const std::uint64_t pid_namespace = namespace_of_self("pid");
  if (pid_namespace == 0) return {};
  return {.host = fabric::host_identity(),
          .pid_namespace = pid_namespace,
          .pid = static_cast<std::uint32_t>(::getpid()),
          .started = is_proc_ours() ? start_of_process("self") : 0,
          .thread = static_cast<std::uint32_t>(::gettid()),
          .time_namespace = namespace_of_self("time")};
}

}  // namespace rdmc::peer

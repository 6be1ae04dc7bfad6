#include "controlplane/peer/identity.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "dataplane/fabric/host_identity.hpp"

namespace rdmc::peer {

// Field 22 of /proc/PID/stat (proc(5)); the second one may hold spaces and brackets. 0: not there.
std::uint64_t start_of_process(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string text;
  // Reading fails when the process ends meanwhile, and a stream's iterator would throw then.
  std::getline(file, text, '\0');
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return fields ? std::stoull(field) : 0;
}

ProcessIdentity identity_of_self() {
  struct stat pid_namespace {};
  if (::stat("/proc/self/ns/pid", &pid_namespace) != 0) return {};
  return {.host = fabric::host_identity(),
          .pid_namespace = pid_namespace.st_ino,
          .pid = static_cast<std::uint32_t>(::getpid()),
          .started = start_of_process("self"),
          .thread = static_cast<std::uint32_t>(::gettid())};
}

}  // namespace rdmc::peer

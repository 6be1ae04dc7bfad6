#include "dataplane/fabric/host_identity.hpp"

#include <sys/stat.h>
#include <xxhash.h>

#include <fstream>
#include <string>

namespace rdmc::fabric {

std::uint64_t host_identity() {
  std::string boot_id;
  std::ifstream(kBootId) >> boot_id;
  struct stat network_namespace {};
  if (boot_id.empty() || stat("/proc/self/ns/net", &network_namespace) != 0) return 0;
  return XXH3_64bits_withSeed(boot_id.data(), boot_id.size(), network_namespace.st_ino);
}

}  // namespace rdmc::fabric

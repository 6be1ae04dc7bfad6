#include "dataplane/port/rdma_devices.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <tuple>

#include "dataplane/base/address_kind.hpp"
#include "dataplane/base/gid.hpp"

namespace rdmc::port {
namespace {

namespace fs = std::filesystem;

/// Returns the first line of a file. Returns an empty line if the file cannot be read. For example, the file
/// of a free entry of the GID table cannot be read.
std::string line_of(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

/// Returns the entries of a directory, sorted. The directory may no longer exist; then the list is empty.
std::vector<fs::path> entries(const fs::path& directory) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error))
    found.push_back(at->path());
  std::ranges::sort(found);
  return found;
}

std::uint32_t number_of(const fs::path& entry) {
  const std::string name = entry.filename().string();
  std::uint32_t number = 0;
  std::from_chars(name.data(), name.data() + name.size(), number);
  return number;
}

}  // namespace

std::vector<RdmaGid> rdma_gids(const fs::path& devices) {
  std::vector<RdmaGid> found;
  for (const fs::path& device : entries(devices)) {
    for (const fs::path& port : entries(device / "ports")) {
      for (const fs::path& entry : entries(port / "gids")) {
        Gid gid;
        if (inet_pton(AF_INET6, line_of(entry).c_str(), gid.data()) != 1) continue;
        const Address address = from_gid(gid);
        // An entry of zeros is free.
        if (!is_wildcard(address) && line_of(port / "gid_attrs/types" / entry.filename()) == "RoCE v2")
          found.push_back({device.filename().string(), number_of(port), number_of(entry), address});
      }
    }
  }
  std::ranges::sort(found, {}, [](const RdmaGid& gid) { return std::tie(gid.device, gid.port, gid.index); });
  return found;
}

std::optional<std::string> rdma_device_at(const Address& address, const fs::path& devices) {
  const auto gids = rdma_gids(devices);
  const auto found = std::ranges::find_if(gids, [&](const RdmaGid& gid) {
    return gid.address.ipv6 == address.ipv6 && gid.address.bytes == address.bytes;
  });
  return found == gids.end() ? std::nullopt : std::optional(found->device);
}

}  // namespace rdmc::port

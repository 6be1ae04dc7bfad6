#include "dataplane/port/rdma_devices.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <vector>

namespace rdmc::port {
namespace {

namespace fs = std::filesystem;

using Gid = std::array<std::uint8_t, 16>;

/// IPv4 as ::ffff:a.b.c.d (IBTA Annex A17.4.5).
Gid gid_of(const Address& address) {
  Gid gid{};
  if (!address.ipv6) gid[10] = gid[11] = 0xFF;
  std::ranges::copy(address.ip(), gid.end() - static_cast<std::ptrdiff_t>(address.ip().size()));
  return gid;
}

/// Reading a free entry of the table fails; then it is an empty line.
std::string line_of(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

/// The entries of a directory that may be gone by now.
std::vector<fs::path> entries(const fs::path& directory) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error))
    found.push_back(at->path());
  std::ranges::sort(found);
  return found;
}

bool has_gid(const fs::path& port, const Gid& wanted) {
  return std::ranges::any_of(entries(port / "gids"), [&](const fs::path& entry) {
    Gid gid;
    return inet_pton(AF_INET6, line_of(entry).c_str(), gid.data()) == 1 && gid == wanted &&
           line_of(port / "gid_attrs/types" / entry.filename()) == "RoCE v2";
  });
}

}  // namespace

std::optional<std::string> rdma_device_at(const Address& address, const fs::path& devices) {
  const Gid wanted = gid_of(address);
  for (const fs::path& device : entries(devices)) {
    for (const fs::path& port : entries(device / "ports"))
      if (has_gid(port, wanted)) return device.filename().string();
  }
  return std::nullopt;
}

}  // namespace rdmc::port

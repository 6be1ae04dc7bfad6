#include "apps/tools/local_end.hpp"

#include <algorithm>
#include <set>

#include "dataplane/fabric/standard_fabrics.hpp"

namespace rdmc::tools {
namespace {

struct Entry {
  std::uint32_t index = 0;
  Address address;
};

std::string list(const std::vector<Entry>& table) {
  std::string text;
  for (const auto& [index, address] : table)
    text += (text.empty() ? "" : ", ") + std::to_string(index) + " " + host_string(address);
  return text.empty() ? "it has none" : "there are: " + text;
}

Result<LocalEnd> entry_of(const std::vector<Entry>& table, std::optional<std::uint32_t> wanted,
                          const std::string& fabric, const std::string& of) {
  const auto found = wanted ? std::ranges::find(table, *wanted, &Entry::index) : table.begin();
  if (found == table.end())
    return fail(Errc::not_found, "no GID " + (wanted ? std::to_string(*wanted) + " " : std::string()) +
                                     "of " + of + "; " + list(table));
  return LocalEnd{fabric, found->address};
}

std::string all_names(const std::vector<port::RdmaGid>& gids,
                      const std::vector<port::InterfaceAddress>& addresses) {
  std::set<std::string> names;
  for (const auto& gid : gids) names.insert(gid.device);
  for (const auto& one : addresses) names.insert(one.interface);
  for (const auto& name : fabric::fabric_names())
    if (name != fabric::kShm) names.insert(name);
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

Result<LocalEnd> choose_local_end(const DeviceWords& words,
                                  const std::vector<port::InterfaceAddress>& addresses,
                                  const std::filesystem::path& rdma_devices) {
  const auto gids = port::rdma_gids(rdma_devices);
  std::vector<Entry> table;
  if (std::ranges::find(gids, words.device, &port::RdmaGid::device) != gids.end()) {
    for (const auto& gid : gids)
      if (gid.device == words.device && gid.port == words.port) table.push_back({gid.index, gid.address});
    return entry_of(
        table, words.gid_index, std::string(fabric::kVerbs),
        "port " + std::to_string(words.port) + " of the RDMA device " + words.device + " for RoCE v2");
  }
  const auto names = fabric::fabric_names();
  const bool is_fabric = words.device.empty() || std::ranges::find(names, words.device) != names.end();
  for (const auto& one : addresses)
    if (is_fabric || one.interface == words.device)
      table.push_back({static_cast<std::uint32_t>(table.size()), one.address});
  if (!is_fabric && table.empty())
    return fail(Errc::not_found,
                "no device '" + words.device + "'; there are: " + all_names(gids, addresses));
  if (words.device == fabric::kShm)
    return fail(Errc::unsupported, "shm reaches nobody but processes of ours on this host");
  if (words.port != 1)
    return fail(Errc::not_found, "no port " + std::to_string(words.port) + ": " +
                                     (is_fabric ? "a fabric" : words.device) + " has one, 1");
  // A fabric without an index does not determine the address.
  if (is_fabric && !words.gid_index) return LocalEnd{words.device, std::nullopt};
  return entry_of(table, words.gid_index, is_fabric ? words.device : "udp",
                  is_fabric ? "this host" : words.device);
}

}  // namespace rdmc::tools

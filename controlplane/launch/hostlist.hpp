// Hostlists in the syntax of pdsh, as the options -w and -x accept them and as Slurm prints them. Each item
// may have a :PORT. Example:
// "web[01-12,20]:7701,rack[1-4]n[0-7],10.0.0.[2-9]:7700,[2001:db8::1]:7700,^more.txt,-web07". The number of
// hosts is checked before a list is expanded, and an error text contains the position of the mistake. This
// code does no I/O, except in the reader of ^FILE, which the caller passes in. Any thread may use it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/base/error.hpp"

namespace rdmc::control {

/// The port number at which agents listen.
constexpr std::uint16_t kDefaultPort = 7700;
/// The largest number of hosts in a list. A group cannot have this many hosts. A longer list is probably a
/// typing error, such as n[1-100000000].
constexpr std::size_t kMaxHosts = 16384;

struct Host {
  std::string name;  ///< A host name or a numeric address, without brackets.
  std::uint16_t port = kDefaultPort;

  friend auto operator<=>(const Host&, const Host&) = default;
};

/// Returns the host as text, for example "web01:7700", "10.0.0.5:7700" or "[2001:db8::1]:7700".
std::string to_string(const Host& host);

/// A function that returns the text of the file that ^FILE names. Its argument is the path of the file. The
/// path "-" means standard input.
using ListReader = std::function<Result<std::string>(const std::string& path)>;

/// Returns the hosts of `text` in the order of `text`, each host once. Leaves out the hosts that are excluded
/// by a "-HOST" in `text` or by the list `exclude`, which has the same syntax. An exclusion without a port
/// number leaves out the host with every port number. An item without a port number has `port`. In a file,
/// each line contains one hostlist, '#' starts a comment, and no further file can be named. Errors:
/// invalid_argument if the syntax is wrong (the text has the position), if there are more than `max_hosts`
/// hosts, or if no host is left; and the errors of `reader`.
Result<std::vector<Host>> expand_hostlist(std::string_view text, std::string_view exclude,
                                          const ListReader& reader, std::size_t max_hosts = kMaxHosts,
                                          std::uint16_t port = kDefaultPort);

}  // namespace rdmc::control

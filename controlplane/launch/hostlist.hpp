// Hostlists in the syntax of pdsh, as the options -w and -x take them and as Slurm prints them. Each item may
// have a :PORT. Example:
// "web[01-12,20]:7701,rack[1-4]n[0-7],10.0.0.[2-9]:7700,[2001:db8::1]:7700,^more.txt,-web07". The number of
// hosts is checked before a list is expanded, and an error names the position of the mistake. There is no I/O
// here except in the reader of ^FILE, which the caller passes in. May be used from any thread.
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

/// The port number of agents, and of an item without a port.
constexpr std::uint16_t kDefaultPort = 7700;
/// More hosts than a group can have. A longer list is probably a typing error, such as n[1-100000000].
constexpr std::size_t kMaxHosts = 16384;

struct Host {
  std::string name;  ///< A host name or a numeric address, without brackets.
  std::uint16_t port = kDefaultPort;

  friend auto operator<=>(const Host&, const Host&) = default;
};

/// Examples: "web01:7700", "10.0.0.5:7700", "[2001:db8::1]:7700".
std::string to_string(const Host& host);

/// A function that returns the text of the file that ^FILE names. The path "-" means standard input.
using ListReader = std::function<Result<std::string>(const std::string& path)>;

/// Returns the hosts of `text` in the order of `text`, each host once. Leaves out the hosts that a "-HOST" in
/// `text` or the list `exclude` (of the same syntax) names. An exclusion without a port leaves out the host
/// with every port. A file holds one hostlist on each line, '#' starts a comment, and a file cannot name
/// further files. Errors: invalid_argument (a syntax error, with its position; more than `max_hosts` hosts;
/// no host is left), and the errors of `reader`.
Result<std::vector<Host>> expand_hostlist(std::string_view text, std::string_view exclude,
                                          const ListReader& reader, std::size_t max_hosts = kMaxHosts);

}  // namespace rdmc::control

// Hostlists in pdsh's syntax, as -w and -x take them and Slurm prints them, with an optional :PORT after each
// item: "web[01-12,20]:7701,rack[1-4]n[0-7],10.0.0.[2-9]:7700,[2001:db8::1]:7700,^more.txt,-web07". Expansion
// is bounded before it starts, and what is wrong is named with its position. Pure but for the reader of
// ^FILE, which the caller hands in; any thread.
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

/// Of agents, and of an item without one.
constexpr std::uint16_t kDefaultPort = 7700;
/// More hosts than a group can have; a longer list is a slip of the pen like n[1-100000000].
constexpr std::size_t kMaxHosts = 16384;

struct Host {
  std::string name;  ///< a host name or a numeric address, without brackets
  std::uint16_t port = kDefaultPort;

  friend auto operator<=>(const Host&, const Host&) = default;
};

/// "web01:7700", "10.0.0.5:7700", "[2001:db8::1]:7700".
std::string to_string(const Host& host);

/// The text of the file that ^FILE names; "-" is standard input.
using ListReader = std::function<Result<std::string>(const std::string& path)>;

/// The hosts of `text` in the order written, each once, without those that a "-HOST" in it or `exclude` (the
/// same syntax) names. An exclusion without a port takes the host away whatever its port. A file holds one
/// hostlist per line; '#' starts a comment; it cannot name further files. Errors: invalid_argument (syntax
/// with its position, more than `max_hosts`, none left), and what `reader` fails with.
Result<std::vector<Host>> expand_hostlist(std::string_view text, std::string_view exclude,
                                          const ListReader& reader, std::size_t max_hosts = kMaxHosts);

}  // namespace rdmc::control

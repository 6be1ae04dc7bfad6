// Where the hosts of a transfer stand: in racks that a file names, or as their addresses tell. Pure; the
// caller reads the file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "apps/bcast-cli/ranking.hpp"
#include "controlplane/launch/hostlist.hpp"
#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::bcast {

class Topology {
 public:
  /// Lines "RACK HOST…": a name, then hosts as -w takes them, between blanks or commas. Lines of the same
  /// name add up, '#' starts a comment. A host without a port stands for all agents on it. Errors:
  /// invalid_argument with `origin` and the line's number (no host, a bad hostlist, a host in two racks, no
  /// rack at all).
  static Result<Topology> parse(std::string_view text, const std::string& origin);

  /// The number of the host's rack, by the order in which the file names them; nothing if it does not.
  std::optional<std::uint32_t> rack_of(const control::Host& host) const;
  std::size_t racks() const { return racks_.size(); }

 private:
  struct Entry {
    std::uint32_t rack;
    std::size_t line;
  };
  Result<void> take_line(std::string_view line, const std::string& where, std::size_t number);

  std::map<std::string, std::uint32_t, std::less<>> racks_;  // by name
  std::map<control::Host, Entry> agents_;                    // with a port of their own
  std::map<std::string, Entry, std::less<>> hosts_;
};

/// Racks as far as addresses tell: one host's members (the same address, or loopback) first, then those of
/// one subnet (IPv4 /24, IPv6 /64), which is a rack. members[0] is the epoch's source.
Ranking rank_by_address(std::span<const std::pair<session::MemberId, Address>> members);

/// The members of one host side by side, hosts in the order of their first members; each is a rack.
Ranking rank_by_host(std::span<const std::pair<session::MemberId, Address>> members);

}  // namespace rdmc::bcast

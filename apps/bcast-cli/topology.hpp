// The racks of a transfer's hosts, as a file names them or as the addresses suggest. Pure: the caller reads
// the file.
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
  /// Parses lines of the form "RACK HOST...": the name of a rack, then hosts in the syntax of -w, separated
  /// by blanks or commas. Several lines may name the same rack. '#' starts a comment. A host without a port,
  /// or with the default port, means all agents on this host. Errors: invalid_argument if a line has no host,
  /// a bad hostlist or a host of another rack, or if there is no rack. The error's text contains `origin`
  /// and, for an error in a line, the line's number.
  static Result<Topology> parse(std::string_view text, const std::string& origin);

  /// Returns the number of the host's rack. The racks are numbered in the order in which the file names them.
  /// Returns nullopt if the file does not name the host.
  std::optional<std::uint32_t> rack_of(const control::Host& host) const;
  std::size_t racks() const { return racks_.size(); }

 private:
  struct Entry {
    std::uint32_t rack;
    std::size_t line;
  };
  Result<void> take_line(std::string_view line, const std::string& where, std::size_t number);

  std::map<std::string, std::uint32_t, std::less<>> racks_;  // the number of each rack, by its name
  std::map<control::Host, Entry> agents_;                    // hosts with another port than the default
  std::map<std::string, Entry, std::less<>> hosts_;
};

/// Orders members by their addresses. Members of one host have the same address, or any loopback address.
/// Hosts of one subnet (IPv4 /24, IPv6 /64) form a rack. Members of a rack are adjacent, and so are members
/// of a host inside a rack. members[0] is the epoch's source.
Ranking rank_by_address(std::span<const std::pair<session::MemberId, Address>> members);

/// Orders members so that the members of one host are adjacent and form a rack. Hosts are in the order of
/// their first members.
Ranking rank_by_host(std::span<const std::pair<session::MemberId, Address>> members);

}  // namespace rdmc::bcast

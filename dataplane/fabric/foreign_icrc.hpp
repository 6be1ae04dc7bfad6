// Verifies the ICRC of datagrams from an endpoint that is not ours. It covers two things that such an
// endpoint chooses as it likes: the UDP source port, which the socket tells, and the IPv4 identification,
// which it hides and which is solved for. Owned by whoever talks to that endpoint; its thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/base/address.hpp"
#include "dataplane/roce/icrc.hpp"

namespace rdmc::fabric {

class ForeignIcrc {
 public:
  /// `ours`: where the datagrams arrive.
  explicit ForeignIcrc(const Address& ours) : ours_(ours) {}

  /// Whether `icrc` is right for a datagram of `datagram_bytes` from `source`: BTH and extension headers,
  /// payload, pad. `identification` is the IP header's where the port saw it: then the check is exact.
  bool matches(const Address& source, std::span<const std::byte> header, std::span<const std::byte> payload,
               std::size_t pad_bytes, std::size_t datagram_bytes, std::uint32_t icrc,
               std::optional<std::uint16_t> identification = std::nullopt);

 private:
  Address ours_, source_;
  std::optional<roce::Icrc> path_;  ///< from source_ to ours_
  std::uint16_t latest_ = 0;        ///< identification; tried first, since some count and some send 0
};

}  // namespace rdmc::fabric

// Verifies the ICRC of datagrams from a foreign endpoint. The ICRC covers two fields that such an endpoint
// chooses freely. The socket reports the UDP source port number. It does not report the IPv4 identification,
// so this class computes it from the ICRC. Owned by the object that receives from that endpoint; used on its
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/base/address.hpp"
#include "dataplane/roce/icrc.hpp"

namespace rdmc::fabric {

class ForeignIcrc {
 public:
  /// `ours`: the address at which the datagrams arrive.
  explicit ForeignIcrc(const Address& ours) : ours_(ours) {}

  /// True if `icrc` is right for a datagram of `datagram_bytes` from `source`. `header` is the BTH and the
  /// extension headers. `identification` is that of the IP header, if the port saw it; only then is the check
  /// exact.
  bool matches(const Address& source, std::span<const std::byte> header, std::span<const std::byte> payload,
               std::size_t pad_bytes, std::size_t datagram_bytes, std::uint32_t icrc,
               std::optional<std::uint16_t> identification = std::nullopt);

 private:
  Address ours_, source_;
  std::optional<roce::Icrc> path_;  ///< From source_ to ours_.
  /// The last identification. It is tried first, because some endpoints count up and some always send 0.
  std::uint16_t latest_ = 0;
};

}  // namespace rdmc::fabric

// Verifies the ICRC of datagrams from a foreign endpoint. The ICRC covers two fields that such an endpoint
// chooses freely: the UDP source port number and the IPv4 identification. The socket reports only the port
// number, so this class computes the identification from the ICRC. The object that receives from the endpoint
// owns the ForeignIcrc and uses it on one thread.
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

  /// Returns true if `icrc` is right for a datagram of `datagram_bytes` from `source`. `header` is the BTH
  /// and the extension headers. `identification` is the identification in the IP header, if the port reports
  /// it. The check is exact only with `identification`.
  bool matches(const Address& source, std::span<const std::byte> header, std::span<const std::byte> payload,
               std::size_t pad_bytes, std::size_t datagram_bytes, std::uint32_t icrc,
               std::optional<std::uint16_t> identification = std::nullopt);

 private:
  Address ours_, source_;
  std::optional<roce::Icrc> path_;  ///< For datagrams from source_ to ours_.
  /// The identification of the last datagram. The search for the next identification starts from it, because
  /// some endpoints increase the identification by 1 for each datagram, and others always send 0.
  std::uint16_t latest_ = 0;
};

}  // namespace rdmc::fabric

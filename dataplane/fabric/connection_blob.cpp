#include "dataplane/fabric/connection_blob.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "dataplane/base/address_kind.hpp"
#include "dataplane/base/bytes.hpp"
#include "dataplane/fabric/blob_offers.hpp"
#include "dataplane/roce/headers.hpp"

namespace rdmc::fabric {
namespace {

// The layout of a blob: "RDQP", version, flags, then the other fields in the order of encode(). Numbers are
// big endian.
constexpr std::uint32_t kMagic = 0x52445150;
constexpr std::uint8_t kVersion = 3;
constexpr std::uint8_t kFlagIpv6 = 1, kFlagSelectiveRepeat = 2, kFlagForeign = 4, kFlagPsnForOther = 8,
                       kFlagIcrcOptional = 16, kFlagNic = 32, kFlagSingleDatagrams = 64, kFlagKeyShare = 128;
constexpr std::size_t kBlobBytes = 4 + 1 + 1 + 1 + 16 + 2 + 2 + 4 + 4 + 4 + 4 + 8;
constexpr std::uint32_t kLargestPathMtu = 65'535;
/// The largest of the five path MTUs of IBTA vol. 1, 9.4.3.1, table 30: 256, 512, 1024, 2048 and 4096.
constexpr std::uint32_t kLargestStandardMtu = 4096;

}  // namespace

ConnectionBlob encode(const ConnectionInfo& info) {
  ConnectionBlob blob(kBlobBytes + (info.key_share ? info.key_share->size() : 0));
  std::byte* at = blob.data();
  const auto put = [&at](auto value) {
    store_be(at, value);
    at += sizeof value;
  };
  put(kMagic);
  put(kVersion);
  put(static_cast<std::uint8_t>(
      (info.shared.ipv6 ? kFlagIpv6 : 0) | (info.selective_repeat ? kFlagSelectiveRepeat : 0) |
      (info.foreign ? kFlagForeign : 0) | (info.psn_for_other ? kFlagPsnForOther : 0) |
      (info.icrc_optional ? kFlagIcrcOptional : 0) | (info.nic ? kFlagNic : 0) |
      (info.single_datagrams ? kFlagSingleDatagrams : 0) | (info.key_share ? kFlagKeyShare : 0)));
  put(info.max_rd_atomic);
  std::memcpy(at, info.shared.bytes.data(), 16);
  at += 16;
  put(info.shared.port);
  put(info.bulk_port);
  put(value_of(info.qpn));
  put(info.first_psn.value());
  put(info.path_mtu);
  put(info.receive_window);
  put(info.host_id);
  if (info.key_share) std::ranges::copy(*info.key_share, at);
  return blob;
}

Result<ConnectionInfo> decode_connection(std::span<const std::byte> blob) {
  blob = split_offers(blob).remote;
  if (blob.size() < 5 || load_be<std::uint32_t>(blob.data()) != kMagic) {
    return fail(Errc::protocol_error, "not a connection blob");
  }
  const auto version = std::to_integer<unsigned>(blob[4]);
  if (version != kVersion) {
    return fail(Errc::version_mismatch, "the peer's connection blob has version " + std::to_string(version) +
                                            ", this program speaks version " + std::to_string(kVersion));
  }
  const bool has_share = blob.size() > 5 && (std::to_integer<unsigned>(blob[5]) & kFlagKeyShare) != 0;
  if (blob.size() != kBlobBytes + (has_share ? crypto::KeyShare{}.size() : 0))
    return fail(Errc::protocol_error, "connection blob of a wrong length");
  const std::byte* at = blob.data() + 5;
  const auto take = [&at]<typename T>(T) {
    const T value = load_be<T>(at);
    at += sizeof value;
    return value;
  };
  ConnectionInfo info;
  const auto flags = take(std::uint8_t{});
  info.shared.ipv6 = (flags & kFlagIpv6) != 0;
  info.selective_repeat = (flags & kFlagSelectiveRepeat) != 0;
  info.foreign = (flags & kFlagForeign) != 0;
  info.psn_for_other = (flags & kFlagPsnForOther) != 0;
  info.icrc_optional = (flags & kFlagIcrcOptional) != 0;
  info.nic = (flags & kFlagNic) != 0;
  info.single_datagrams = (flags & kFlagSingleDatagrams) != 0;
  info.max_rd_atomic = take(std::uint8_t{});
  std::memcpy(info.shared.bytes.data(), at, 16);
  at += 16;
  info.shared.port = take(std::uint16_t{});
  info.bulk_port = take(std::uint16_t{});
  const auto qpn = take(std::uint32_t{});
  const auto psn = take(std::uint32_t{});
  info.path_mtu = take(std::uint32_t{});
  info.receive_window = take(std::uint32_t{});
  info.host_id = take(std::uint64_t{});
  if (has_share) std::ranges::copy_n(at, crypto::KeyShare{}.size(), info.key_share.emplace().begin());
  if (qpn < 2 || qpn > Psn::kMask || psn > Psn::kMask || info.path_mtu > kLargestPathMtu ||
      info.path_mtu % 4 != 0 || !is_host_address(info.shared) || info.shared.port == 0 ||
      info.bulk_port == 0 || info.receive_window == 0) {
    return fail(Errc::protocol_error, "connection blob with a field out of range");
  }
  info.qpn = Qpn{qpn};
  info.first_psn = Psn(psn);
  return info;
}

Result<std::uint32_t> agree_path_mtu(const ConnectionInfo& ours, const ConnectionInfo& theirs) {
  if (theirs.foreign && !theirs.nic) {
    const bool standard = std::has_single_bit(theirs.path_mtu) && theirs.path_mtu <= kLargestStandardMtu;
    if (!standard || theirs.path_mtu > ours.path_mtu)
      return fail(Errc::unsupported, "a path MTU of " + std::to_string(theirs.path_mtu) +
                                         " bytes; the interface carries " + std::to_string(ours.path_mtu));
  }
  const std::uint32_t smaller = std::min(ours.path_mtu, theirs.path_mtu);
  if (smaller < 256) return fail(Errc::unsupported, "no common path MTU of at least 256 bytes");
  if (!ours.nic && !theirs.nic) return smaller;
  for (const ConnectionInfo* side : {&ours, &theirs}) {
    if (side->shared.port != kRocePort)
      return fail(Errc::unsupported, "an RDMA NIC sends to UDP port 4791 only; another program on " +
                                         host_string(side->shared) + " has that, and this one port " +
                                         std::to_string(side->shared.port));
  }
  return std::min(std::bit_floor(smaller), kLargestStandardMtu);
}

}  // namespace rdmc::fabric

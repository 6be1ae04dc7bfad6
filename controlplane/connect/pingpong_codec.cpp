// The codec of the 52-byte line. rdma-core writes the line with the format "%04x:%06x:%06x:%s"
// (libibverbs/examples/rc_pingpong.c).
#include <charconv>
#include <cstring>
#include <optional>

#include "controlplane/connect/pingpong.hpp"
#include "dataplane/base/address_kind.hpp"
#include "dataplane/base/gid.hpp"

namespace rdmc::control {
namespace {

constexpr std::size_t kQpnAt = 5, kPsnAt = 12, kGidAt = 19, kGidBytes = 16;
static_assert(kGidAt + 2 * kGidBytes + 1 == kPingpongLineBytes);

void put_hex(char* at, std::uint32_t value, std::size_t digits) {
  for (std::size_t i = digits; i-- > 0; value >>= 4) at[i] = "0123456789abcdef"[value & 15];
}

std::optional<std::uint32_t> take_hex(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::array<std::byte, kPingpongLineBytes> encode_pingpong(const PingpongEnd& end) {
  char line[kPingpongLineBytes] = "0000:";
  put_hex(line + kQpnAt, value_of(end.qpn), 6);
  put_hex(line + kPsnAt, end.psn.value(), 6);
  line[kPsnAt - 1] = line[kGidAt - 1] = ':';
  const auto gid = to_gid(end.address);
  for (std::size_t i = 0; i < kGidBytes; ++i) put_hex(line + kGidAt + 2 * i, gid[i], 2);
  std::array<std::byte, kPingpongLineBytes> bytes;
  std::memcpy(bytes.data(), line, sizeof line);
  return bytes;
}

Result<PingpongEnd> decode_pingpong(std::span<const std::byte> bytes) {
  const auto malformed = [] { return fail(Errc::protocol_error, "the peer's address is not a pingpong's"); };
  if (bytes.size() != kPingpongLineBytes || bytes.back() != std::byte{0}) return malformed();
  const std::string_view line(reinterpret_cast<const char*>(bytes.data()), bytes.size() - 1);
  if (line[kQpnAt - 1] != ':' || line[kPsnAt - 1] != ':' || line[kGidAt - 1] != ':') return malformed();
  const auto lid = take_hex(line.substr(0, 4));
  const auto qpn = take_hex(line.substr(kQpnAt, 6)), psn = take_hex(line.substr(kPsnAt, 6));
  if (!lid || !qpn || *qpn < 2 || !psn) return malformed();
  std::array<std::uint8_t, kGidBytes> gid;
  for (std::size_t i = 0; i < kGidBytes; ++i) {
    const auto byte = take_hex(line.substr(kGidAt + 2 * i, 2));
    if (!byte) return malformed();
    gid[i] = static_cast<std::uint8_t>(*byte);
  }
  const PingpongEnd end{.address = from_gid(gid), .qpn = Qpn{*qpn}, .psn = Psn(*psn)};
  if (!is_host_address(end.address))
    return fail(Errc::unsupported,
                "the peer's GID is no address of a host: it takes the index of a RoCE v2 one (-g)");
  return end;
}

}  // namespace rdmc::control

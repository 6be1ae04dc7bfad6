#include "dataplane/roce/management_datagram.hpp"

#include "dataplane/base/bytes.hpp"

namespace rdmc::roce {
namespace {

constexpr auto kDatagramSendOnly = static_cast<Opcode>(0x64);
/// The Q_Key of every queue pair 1 (IBTA vol. 1, 3.5.3).
constexpr std::uint32_t kManagementKey = 0x8001'0000;

}  // namespace

bool is_datagram_send(std::span<const std::byte> datagram) noexcept {
  return !datagram.empty() && datagram[0] == std::byte{value_of(kDatagramSendOnly)};
}

std::expected<std::span<const std::byte, kMadBytes>, ParseError> parse_management(
    std::span<const std::byte> datagram) noexcept {
  if (datagram.size() < kManagementHeaderBytes + kIcrcBytes) return std::unexpected(ParseError::too_short);
  if (!is_datagram_send(datagram)) return std::unexpected(ParseError::unknown_opcode);
  const auto flags = std::to_integer<unsigned>(datagram[1]);
  if ((flags & 0x0F) != 0) return std::unexpected(ParseError::bad_version);
  if ((flags & 0x30) != 0) return std::unexpected(ParseError::bad_pad);
  const std::byte* const deth = datagram.data() + kBthBytes;
  const bool admitted = (load_be<std::uint16_t>(datagram.data() + 2) & 0x7FFF) == 0x7FFF &&
                        load_be24(datagram.data() + 5) == value_of(kManagementQpn) &&
                        load_be<std::uint32_t>(deth) == kManagementKey;
  if (!admitted) return std::unexpected(ParseError::bad_partition);
  if (datagram.size() != kManagementHeaderBytes + kMadBytes + kIcrcBytes)
    return std::unexpected(ParseError::bad_length);
  return datagram.subspan<kManagementHeaderBytes, kMadBytes>();
}

void write_management(std::byte* out, Psn psn) noexcept {
  std::byte* const deth =
      out + write_bth(out, {.opcode = kDatagramSendOnly, .destination = kManagementQpn, .psn = psn});
  store_be(deth, kManagementKey);
  // Writes a reserved byte and the number of this side's queue pair.
  store_be(deth + 4, value_of(kManagementQpn));
}

}  // namespace rdmc::roce

#include "dataplane/relay/grant.hpp"

#include "dataplane/base/bytes.hpp"

namespace rdmc::relay {

namespace {

constexpr std::size_t kLimitAt = 0;
constexpr std::size_t kAddressAt = 8;
constexpr std::size_t kSlotsAt = 16;
constexpr std::size_t kKeyAt = 24;
constexpr std::size_t kSlotIdAt = 28;
constexpr std::size_t kFlagsAt = 30;
constexpr std::size_t kPaddingAt = 31;
constexpr std::uint8_t kFirstOnly = 1;
static_assert(kPaddingAt + 1 == kGrantBytes);

}  // namespace

std::array<std::byte, kGrantBytes> encode(const BlockGrant& grant) {
  std::array<std::byte, kGrantBytes> bytes{};
  store_be(&bytes[kLimitAt], grant.limit);
  store_be(&bytes[kAddressAt], grant.remote_address);
  store_be(&bytes[kSlotsAt], grant.slots);
  store_be(&bytes[kKeyAt], value_of(grant.key));
  store_be(&bytes[kSlotIdAt], grant.slot_id);
  bytes[kFlagsAt] = std::byte{grant.first_only ? kFirstOnly : std::uint8_t{0}};
  return bytes;
}

Result<BlockGrant> decode_grant(std::span<const std::byte> bytes) {
  if (bytes.size() != kGrantBytes) return fail(Errc::protocol_error, "grant: not 32 bytes");
  const std::uint8_t flags = std::to_integer<std::uint8_t>(bytes[kFlagsAt]);
  BlockGrant grant{.limit = load_be<std::uint64_t>(&bytes[kLimitAt]),
                   .remote_address = load_be<std::uint64_t>(&bytes[kAddressAt]),
                   .slots = load_be<std::uint64_t>(&bytes[kSlotsAt]),
                   .key = RemoteKey{load_be<std::uint32_t>(&bytes[kKeyAt])},
                   .slot_id = load_be<std::uint16_t>(&bytes[kSlotIdAt]),
                   .first_only = flags == kFirstOnly};
  if (flags > kFirstOnly) return fail(Errc::protocol_error, "grant: unknown flags");
  if (bytes[kPaddingAt] != std::byte{0}) return fail(Errc::protocol_error, "grant: padding is not zero");
  if (grant.limit == 0 || grant.slots == 0) return fail(Errc::protocol_error, "grant: covers no block");
  if (grant.first_only && (grant.limit != 1 || grant.slots != 1)) {
    return fail(Errc::protocol_error, "grant: more than one block for a first block");
  }
  return grant;
}

}  // namespace rdmc::relay

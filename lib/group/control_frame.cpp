#include "lib/group/control_frame.hpp"

#include <algorithm>

#include "dataplane/base/bytes.hpp"

namespace rdmc::group {
namespace {

constexpr std::byte kAnnouncement{1}, kGrant{2};
constexpr std::size_t kHeaderBytes = 16, kAnnouncementBytes = kHeaderBytes + 8;

}  // namespace

std::size_t encode(const ControlFrame& frame, std::span<std::byte, kControlFrameBytes> out) {
  std::ranges::fill(out, std::byte{0});
  if (const auto* announcement = std::get_if<Announcement>(&frame)) {
    out[0] = kAnnouncement;
    store_be(&out[8], announcement->message);
    store_be(&out[16], announcement->bytes);
    return kAnnouncementBytes;
  }
  const auto& grant = std::get<GrantFrame>(frame);
  out[0] = kGrant;
  store_be(&out[8], grant.message);
  std::ranges::copy(relay::encode(grant.grant), out.begin() + kHeaderBytes);
  return kControlFrameBytes;
}

Result<ControlFrame> decode_control_frame(std::span<const std::byte> bytes) {
  const auto bad = [] { return fail(Errc::protocol_error, "malformed control frame"); };
  if (bytes.size() < kHeaderBytes) return bad();
  if (std::ranges::any_of(bytes.subspan(1, 7), [](std::byte b) { return b != std::byte{0}; })) return bad();
  const auto message = load_be<std::uint64_t>(&bytes[8]);
  if (bytes[0] == kAnnouncement && bytes.size() == kAnnouncementBytes) {
    return Announcement{message, load_be<std::uint64_t>(&bytes[16])};
  }
  if (bytes[0] == kGrant && bytes.size() == kControlFrameBytes) {
    auto grant = relay::decode_grant(bytes.subspan(kHeaderBytes));
    if (!grant) return std::unexpected(grant.error());
    return GrantFrame{message, *grant};
  }
  return bad();
}

}  // namespace rdmc::group

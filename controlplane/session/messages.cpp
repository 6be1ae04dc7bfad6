#include "controlplane/session/messages.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace rdmc::session {
namespace {

constexpr std::array kCodes = {
    std::pair{Errc::invalid_argument, wire::CODE_INVALID_ARGUMENT},
    std::pair{Errc::would_block, wire::CODE_WOULD_BLOCK},
    std::pair{Errc::not_found, wire::CODE_NOT_FOUND},
    std::pair{Errc::already_exists, wire::CODE_ALREADY_EXISTS},
    std::pair{Errc::permission_denied, wire::CODE_PERMISSION_DENIED},
    std::pair{Errc::no_space, wire::CODE_NO_SPACE},
    std::pair{Errc::io_error, wire::CODE_IO_ERROR},
    std::pair{Errc::unsupported, wire::CODE_UNSUPPORTED},
    std::pair{Errc::authentication, wire::CODE_AUTHENTICATION},
    std::pair{Errc::version_mismatch, wire::CODE_VERSION_MISMATCH},
    std::pair{Errc::protocol_error, wire::CODE_PROTOCOL_ERROR},
    std::pair{Errc::corrupt, wire::CODE_CORRUPT},
    std::pair{Errc::timed_out, wire::CODE_TIMED_OUT},
    std::pair{Errc::peer_failed, wire::CODE_PEER_FAILED},
    std::pair{Errc::cancelled, wire::CODE_CANCELLED},
    std::pair{Errc::resource_limit, wire::CODE_RESOURCE_LIMIT},
};
static_assert(kCodes.size() == static_cast<std::size_t>(Errc::resource_limit) + 1,
              "every error has its wire number");

}  // namespace

Result<wire::Envelope> parse_envelope(std::span<const std::byte> bytes) {
  if (bytes.size() > kMaxMessageBytes)
    return fail(Errc::protocol_error, "sent a control message that is too long");
  wire::Envelope envelope;
  if (!envelope.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return fail(Errc::protocol_error, "sent a malformed control message");
  if (envelope.body_case() == wire::Envelope::BODY_NOT_SET)
    return fail(Errc::protocol_error, "sent a control message of an unknown kind");
  return envelope;
}

Bytes serialize(const wire::Envelope& envelope) {
  Bytes bytes(envelope.ByteSizeLong());
  envelope.SerializeToArray(bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

std::string_view name(const wire::Envelope& envelope) {
  switch (envelope.body_case()) {
    case wire::Envelope::kHello: return "Hello";
    case wire::Envelope::kWelcome: return "Welcome";
    case wire::Envelope::kJob: return "Job";
    case wire::Envelope::kAccept: return "Accept";
    case wire::Envelope::kForm: return "Form";
    case wire::Envelope::kBlobs: return "Blobs";
    case wire::Envelope::kPeers: return "Peers";
    case wire::Envelope::kReady: return "Ready";
    case wire::Envelope::kStart: return "Start";
    case wire::Envelope::kHeartbeat: return "Heartbeat";
    case wire::Envelope::kProgress: return "Progress";
    case wire::Envelope::kSuspect: return "Suspect";
    case wire::Envelope::kWait: return "Wait";
    case wire::Envelope::kLag: return "Lag";
    case wire::Envelope::kProbe: return "Probe";
    case wire::Envelope::kProbeAnswer: return "ProbeAnswer";
    case wire::Envelope::kEnd: return "End";
    case wire::Envelope::kEnded: return "Ended";
    case wire::Envelope::kDelivered: return "Delivered";
    case wire::Envelope::kCommit: return "Commit";
    case wire::Envelope::kCommitted: return "Committed";
    case wire::Envelope::kFinish: return "Finish";
    case wire::Envelope::kFailed: return "Failed";
    case wire::Envelope::kAbort: return "Abort";
    case wire::Envelope::kAbortDone: return "AbortDone";
    case wire::Envelope::kComplete: return "Complete";
    case wire::Envelope::kExpect: return "Expect";
    case wire::Envelope::BODY_NOT_SET: break;
  }
  return "empty message";
}

Bytes to_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string_view to_view(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string printable(std::string_view text) {
  std::string clean(text.substr(0, kMaxTextBytes));
  for (char& c : clean)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  return clean;
}

void store(wire::Cause& to, const Error& from) {
  const auto* known = std::ranges::find(kCodes, from.code, &decltype(kCodes)::value_type::first);
  to.set_code(known == kCodes.end() ? wire::CODE_UNKNOWN : known->second);
  to.set_text(printable(from.what));
}

/// Reads a cause. An error code that this version does not know becomes peer_failed.
Error load(const wire::Cause& from) {
  const auto* known = std::ranges::find(kCodes, from.code(), &decltype(kCodes)::value_type::second);
  return {known == kCodes.end() ? Errc::peer_failed : known->first, printable(from.text())};
}

void store(wire::Member& to, const MemberInfo& from) {
  to.set_member(value_of(from.member));
  to.set_rank(value_of(from.rank));
  to.set_name(printable(from.name));
  to.set_address(printable(from.address));
}

MemberInfo load(const wire::Member& from) {
  return {MemberId{from.member()}, Rank{from.rank()}, printable(from.name()), printable(from.address())};
}

static_assert(wire::WAIT_FOR_ROOM == static_cast<int>(relay::Wait::For::room) &&
              wire::WAIT_FOR_BLOCK == static_cast<int>(relay::Wait::For::block) &&
              wire::WAIT_FOR_LINK == static_cast<int>(relay::Wait::For::link) &&
              wire::WAIT_FOR_STORE == static_cast<int>(relay::Wait::For::store));

void store(wire::Wait& to, const std::optional<relay::Wait>& from) {
  if (!from) return;
  to.set_step(from->step);
  to.set_peer(value_of(from->peer));
  to.set_what(static_cast<wire::WaitFor>(from->what));
}

std::optional<relay::Wait> load(const wire::Wait& from) {
  if (!from.has_step() || !wire::WaitFor_IsValid(from.what())) return std::nullopt;
  return relay::Wait{from.step(), Rank{from.peer()}, static_cast<relay::Wait::For>(from.what())};
}

void store(wire::FailedMember& to, const FailedMember& from) {
  to.set_rank(value_of(from.rank));
  to.set_name(printable(from.name));
  store(*to.mutable_cause(), from.cause);
}

std::vector<FailedMember> load_failed(const wire::End& end) {
  std::vector<FailedMember> failed;
  for (const wire::FailedMember& member : end.failed())
    failed.push_back({Rank{member.rank()}, printable(member.name()), load(member.cause())});
  return failed;
}

std::string to_text(Duration duration) {
  constexpr std::int64_t kMillisecond = 1'000'000;
  if (duration >= seconds(1) && duration.ns % seconds(1).ns == 0)
    return std::to_string(duration.ns / seconds(1).ns) + " s";
  return std::to_string(duration.ns / kMillisecond) + " ms";
}

}  // namespace rdmc::session

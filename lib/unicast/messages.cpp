#include "lib/unicast/messages.hpp"

#include "lib/unicast/unicast.pb.h"

namespace rdmc::unicast {
namespace {

Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

template <typename Wire>
Bytes serialized(const Wire& wire) {
  Bytes bytes(wire.ByteSizeLong());
  wire.SerializeToArray(bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

template <typename Wire>
bool parse(Wire& wire, std::span<const std::byte> bytes) {
  return wire.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

/// Converts a code of a message. A code that only a later version knows becomes peer_failed.
Errc code_of(std::uint32_t code) {
  const bool is_known = code >= 1 && code <= static_cast<std::uint32_t>(Errc::resource_limit) + 1;
  return is_known ? static_cast<Errc>(code - 1) : Errc::peer_failed;
}

}  // namespace

Bytes encode(const Greeting& greeting) {
  wire::Greeting out;
  out.set_version(kVersion);
  out.set_name(greeting.name);
  out.set_private_data(greeting.private_data.data(), greeting.private_data.size());
  return serialized(out);
}

Result<Greeting> decode_greeting(std::span<const std::byte> bytes) {
  wire::Greeting in;
  if (!parse(in, bytes)) return fail(Errc::protocol_error, "the peer sent a malformed greeting");
  if (in.version() != kVersion)
    return fail(Errc::version_mismatch, "the peer speaks version " + std::to_string(in.version()) +
                                            " of the endpoints' protocol, we speak " +
                                            std::to_string(kVersion));
  if (in.name().size() > kMostNameBytes || in.private_data().size() > kMostPrivateBytes)
    return fail(Errc::protocol_error, "the peer sent a greeting that is too long");
  return Greeting{in.name(), bytes_of(in.private_data())};
}

Bytes encode(const Message& message) {
  wire::Message out;
  if (const auto* ended = std::get_if<Ended>(&message)) {
    out.mutable_ended()->set_code(static_cast<std::uint32_t>(ended->cause.code) + 1);
    out.mutable_ended()->set_text(ended->cause.what.substr(0, kMostTextBytes));
  } else {
    out.mutable_ready();
  }
  return serialized(out);
}

Result<Message> decode_message(std::span<const std::byte> bytes) {
  wire::Message in;
  if (!parse(in, bytes)) return fail(Errc::protocol_error, "the peer sent a malformed message");
  switch (in.body_case()) {
    case wire::Message::kReady: return Ready{};
    case wire::Message::kEnded:
      return Ended{{code_of(in.ended().code()), in.ended().text().substr(0, kMostTextBytes)}};
    case wire::Message::BODY_NOT_SET: break;
  }
  return fail(Errc::protocol_error, "the peer sent a message of an unknown kind");
}

}  // namespace rdmc::unicast

#include "controlplane/peer/messages.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "controlplane/peer/peer.pb.h"

namespace rdmc::peer {
namespace {

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
template <std::size_t kBytes>
std::array<std::byte, kBytes> array_of(const std::string& text) {
  std::array<std::byte, kBytes> array{};
  std::ranges::copy(std::as_bytes(std::span(text)).first(std::min(kBytes, text.size())), array.begin());
  return array;
}

void put(wire::Envelope& to, const Hello& hello) {
  auto& out = *to.mutable_hello();
  out.set_version(kVersion);
  out.set_incarnation(text_of(hello.identity.incarnation));
  auto& process = *out.mutable_process();
  process.set_host(hello.identity.process.host);
  process.set_pid_namespace(hello.identity.process.pid_namespace);
  process.set_pid(hello.identity.process.pid);
  process.set_started(hello.identity.process.started);
  process.set_thread(hello.identity.process.thread);
  process.set_time_namespace(hello.identity.process.time_namespace);
  out.set_nonce(text_of(hello.nonce));
  out.set_secret(text_of(hello.secret));
  for (const Proof& proof : hello.proofs) out.add_proofs(text_of(proof));
}
void put(wire::Envelope& to, const Open& open) {
  auto& out = *to.mutable_open();
  out.set_channel(static_cast<std::uint32_t>(open.channel));
  out.set_service(open.service);
  out.set_greeting(text_of(open.offer.greeting));
  out.set_blob(text_of(open.offer.blob));
}
void put(wire::Envelope& to, const Accept& accept) {
  auto& out = *to.mutable_accept();
  out.set_channel(static_cast<std::uint32_t>(accept.channel));
  out.set_greeting(text_of(accept.offer.greeting));
  out.set_blob(text_of(accept.offer.blob));
}
void put(wire::Envelope& to, const Data& data) {
  auto& out = *to.mutable_data();
  out.set_channel(static_cast<std::uint32_t>(data.channel));
  out.set_body(text_of(data.body));
}
void put(wire::Envelope& to, const Close& close) {
  to.mutable_close()->set_channel(static_cast<std::uint32_t>(close.channel));
}
void put(wire::Envelope& to, const Reset& reset) {
  auto& out = *to.mutable_reset();
  out.set_channel(static_cast<std::uint32_t>(reset.channel));
  out.set_code(static_cast<std::uint32_t>(reset.code) + 1);
  out.set_text(reset.text.substr(0, kMostTextBytes));
}
void put(wire::Envelope& to, const Known& known) {
  auto& out = *to.mutable_known();
  for (const Proof& proof : known.proofs) out.add_proofs(text_of(proof));
}
void put(wire::Envelope& to, const Choice& choice) {
  auto& out = *to.mutable_choice();
  if (choice.proof) out.set_proof(text_of(*choice.proof));
}

std::unexpected<Error> malformed(const char* what) {
  return fail(Errc::protocol_error, std::string("sent ") + what);
}

Result<std::vector<Proof>> proofs_of(const google::protobuf::RepeatedPtrField<std::string>& in) {
  if (static_cast<std::size_t>(in.size()) > kMostProofs) return malformed("too many proofs");
  std::vector<Proof> proofs;
  for (const std::string& proof : in) {
    if (proof.size() != sizeof(Proof)) return malformed("a proof of another length");
    proofs.push_back(array_of<sizeof(Proof)>(proof));
  }
  return proofs;
}

Result<Message> take(const wire::Hello& in) {
  if (in.version() != kVersion)
    return fail(Errc::version_mismatch, "speaks version " + std::to_string(in.version()) +
                                            " of the control protocol, we speak " + std::to_string(kVersion));
  Hello hello;
  if (in.incarnation().size() != hello.identity.incarnation.size() ||
      in.nonce().size() != hello.nonce.size() || in.secret().size() != hello.secret.size())
    return malformed("a Hello with an identity that is cut off");
  hello.identity.incarnation = array_of<16>(in.incarnation());
  hello.identity.process = {.host = in.process().host(),
                            .pid_namespace = in.process().pid_namespace(),
                            .pid = in.process().pid(),
                            .started = in.process().started(),
                            .thread = in.process().thread(),
                            .time_namespace = in.process().time_namespace()};
  hello.nonce = array_of<16>(in.nonce());
  hello.secret = array_of<16>(in.secret());
  auto proofs = proofs_of(in.proofs());
  if (!proofs) return std::unexpected(std::move(proofs.error()));
  hello.proofs = std::move(*proofs);
  return hello;
}
Result<Message> take(const wire::Known& in) {
  auto proofs = proofs_of(in.proofs());
  if (!proofs) return std::unexpected(std::move(proofs.error()));
  return Known{std::move(*proofs)};
}
Result<Message> take(const wire::Choice& in) {
  if (in.proof().empty()) return Choice{};
  if (in.proof().size() != sizeof(Proof)) return malformed("a proof of another length");
  return Choice{array_of<sizeof(Proof)>(in.proof())};
}

template <typename From>
std::optional<Offer> offer_of(const From& in) {
  if (in.greeting().size() > kMostOfferBytes || in.blob().size() > kMostOfferBytes) return std::nullopt;
  return Offer{bytes_of(in.greeting()), bytes_of(in.blob())};
}

Result<Message> take(const wire::Open& in) {
  auto offer = offer_of(in);
  if (!offer || in.service().size() > kMostServiceBytes) return malformed("an Open that is too long");
  return Open{ChannelId{in.channel()}, in.service(), std::move(*offer)};
}
Result<Message> take(const wire::Accept& in) {
  auto offer = offer_of(in);
  if (!offer) return malformed("an Accept that is too long");
  return Accept{ChannelId{in.channel()}, std::move(*offer)};
}
Result<Message> take(const wire::Reset& in) {
  // A later version may have further codes. A code that this version does not know becomes peer_failed.
  const bool is_known = in.code() >= 1 && in.code() <= static_cast<std::uint32_t>(Errc::resource_limit) + 1;
  return Reset{ChannelId{in.channel()}, is_known ? static_cast<Errc>(in.code() - 1) : Errc::peer_failed,
               in.text().substr(0, kMostTextBytes)};
}

}  // namespace

Bytes encode(const Message& message) {
  wire::Envelope envelope;
  std::visit([&](const auto& one) { put(envelope, one); }, message);
  Bytes bytes(envelope.ByteSizeLong());
  envelope.SerializeToArray(bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

Result<Message> decode(std::span<const std::byte> bytes) {
  wire::Envelope envelope;
  if (!envelope.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return malformed("a malformed control message");
  switch (envelope.body_case()) {
    case wire::Envelope::kHello: return take(envelope.hello());
    case wire::Envelope::kOpen: return take(envelope.open());
    case wire::Envelope::kAccept: return take(envelope.accept());
    case wire::Envelope::kData:
      return Data{ChannelId{envelope.data().channel()}, bytes_of(envelope.data().body())};
    case wire::Envelope::kClose: return Close{ChannelId{envelope.close().channel()}};
    case wire::Envelope::kReset: return take(envelope.reset());
    case wire::Envelope::kKnown: return take(envelope.known());
    case wire::Envelope::kChoice: return take(envelope.choice());
    case wire::Envelope::BODY_NOT_SET: break;
  }
  return malformed("a control message of an unknown kind");
}

}  // namespace rdmc::peer

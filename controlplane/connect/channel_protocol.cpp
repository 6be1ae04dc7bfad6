#include "controlplane/connect/channel_protocol.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "dataplane/base/bytes.hpp"

namespace rdmc::control {
namespace {

// The header of a TLS record (RFC 8446, 5.1): type (1 byte), version (2 bytes), length (2 bytes).
constexpr std::size_t kTlsHeaderBytes = 5;
constexpr std::byte kTlsAlert{21};
constexpr std::byte kTlsHandshake{22};
constexpr std::byte kTlsMajor{3};

/// The fatal alert insufficient_security (71) as a plaintext record. A server that requires TLS sends it to a
/// client without TLS, and the client recognizes it.
constexpr std::array kInsufficientSecurity{kTlsAlert,    kTlsMajor,    std::byte{3}, std::byte{0},
                                           std::byte{2}, std::byte{2}, std::byte{71}};

bool may_be_tls(std::span<const std::byte> bytes, std::byte type) {
  return bytes[0] == type && (bytes.size() < 2 || bytes[1] == kTlsMajor);
}

}  // namespace

ChannelProtocol::ChannelProtocol(Role role, const ChannelOptions& options)
    : role_(role),
      security_(options.security),
      version_(options.protocol_version),
      frames_(options.max_message_bytes) {}

void ChannelProtocol::fail_with(Errc code, std::string what) {
  phase_ = Phase::failed;
  failure_ = Error{code, std::move(what)};
}

void ChannelProtocol::start() {
  if (role_ == Role::server) return;
  const auto* context = std::get_if<TlsContext>(&security_);
  if (context == nullptr) return write_preamble();
  auto session = TlsSession::create(*context, Role::client);
  if (!session) return fail_with(session.error().code, session.error().what);
  tls_ = std::move(*session);
  drive_tls({});
}

void ChannelProtocol::receive(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  switch (phase_) {
    case Phase::first_bytes:
    case Phase::tls_handshake:
      // Bytes are counted until the peer has proved itself. Bytes that arrive in the same read as the proof
      // are counted too, but they are fewer than the limit.
      unproved_bytes_ += bytes.size();
      if (std::holds_alternative<TlsContext>(security_) && unproved_bytes_ > kMaxUnprovedBytes)
        return fail_with(Errc::protocol_error, "the other side sent " + std::to_string(unproved_bytes_) +
                                                   " bytes and has not finished the TLS handshake");
      if (phase_ == Phase::tls_handshake) return drive_tls(bytes);
      first_bytes_.insert(first_bytes_.end(), bytes.begin(), bytes.end());
      return look_at_first_bytes();
    case Phase::preamble:
    case Phase::open: return tls_ ? drive_tls(bytes) : on_plaintext(bytes);
    case Phase::ended:
    case Phase::failed: return;
  }
}

void ChannelProtocol::look_at_first_bytes() {
  if (std::holds_alternative<TlsContext>(security_)) {
    first_bytes_for_tls();
  } else {
    first_bytes_for_plaintext();
  }
}

void ChannelProtocol::first_bytes_for_tls() {
  if (may_be_magic(first_bytes_)) {
    if (first_bytes_.size() < kMagic.size()) return;
    if (role_ == Role::server) output_.assign(kInsufficientSecurity.begin(), kInsufficientSecurity.end());
    return fail_with(Errc::authentication,
                     "the other side runs with --insecure; this side requires the cluster key");
  }
  const bool handshake = may_be_tls(first_bytes_, kTlsHandshake);
  if (!handshake && !(role_ == Role::client && may_be_tls(first_bytes_, kTlsAlert)))
    return fail_with(Errc::protocol_error,
                     "the other side does not speak rdmc; it began with " + excerpt(first_bytes_));
  // A server makes no TLS session before a whole record has arrived. If a peer never sends a whole record,
  // only the memory of its bytes is used.
  if (first_bytes_.size() < kTlsHeaderBytes) return;
  const std::size_t record = kTlsHeaderBytes + load_be<std::uint16_t>(first_bytes_.data() + 3);
  if (record > kMaxUnprovedBytes)
    return fail_with(Errc::protocol_error,
                     "the other side begins with a TLS record of " + std::to_string(record) + " bytes");
  if (first_bytes_.size() < record) return;
  if (!tls_) {
    auto session = TlsSession::create(std::get<TlsContext>(security_), role_);
    if (!session) return fail_with(session.error().code, session.error().what);
    tls_ = std::move(*session);
  }
  phase_ = Phase::tls_handshake;
  const auto bytes = std::exchange(first_bytes_, {});
  drive_tls(bytes);
}

void ChannelProtocol::first_bytes_for_plaintext() {
  if (may_be_magic(first_bytes_)) {
    if (first_bytes_.size() < kMagic.size()) return;
    if (role_ == Role::server) write_preamble();
    phase_ = Phase::preamble;
    const auto bytes = std::exchange(first_bytes_, {});
    return on_plaintext(bytes);
  }
  if (may_be_tls(first_bytes_, kTlsHandshake) || may_be_tls(first_bytes_, kTlsAlert)) {
    if (first_bytes_.size() < 2) return;
    if (role_ == Role::server)
      write_preamble();  // With this side's preamble, the other side can report the
                         // same error.
    return fail_with(Errc::authentication,
                     "the other side requires the cluster key; this side runs with --insecure");
  }
  fail_with(Errc::protocol_error,
            "the other side does not speak rdmc; it began with " + excerpt(first_bytes_));
}

void ChannelProtocol::drive_tls(std::span<const std::byte> ciphertext) {
  const auto failed = [this](const Error& error) {
    tls_->take_output(output_);  // The output contains the alert for the peer.
    fail_with(error.code, error.what);
  };
  if (auto taken = tls_->receive(ciphertext); !taken) return failed(taken.error());
  if (!tls_->established()) {
    const auto done = tls_->handshake();
    if (!done) return failed(done.error());
    tls_->take_output(output_);
    if (!*done) return;
    phase_ = Phase::preamble;
    write_preamble();
  }
  std::array<std::byte, 16 * 1024> plaintext;
  while (phase_ == Phase::preamble || phase_ == Phase::open) {
    const auto got = tls_->read(plaintext);
    if (!got) return failed(got.error());
    if (*got == 0) break;
    on_plaintext(std::span(plaintext).first(*got));
  }
  tls_->take_output(output_);  // If the peer has updated its TLS keys, the output contains the reply.
}

void ChannelProtocol::on_plaintext(std::span<const std::byte> plaintext) {
  if (phase_ == Phase::preamble) {
    const std::size_t take = std::min(plaintext.size(), kPreambleBytes - first_bytes_.size());
    first_bytes_.insert(first_bytes_.end(), plaintext.begin(),
                        plaintext.begin() + static_cast<std::ptrdiff_t>(take));
    plaintext = plaintext.subspan(take);
    if (!may_be_magic(first_bytes_))
      return fail_with(Errc::protocol_error,
                       "the other side does not speak rdmc; it began with " + excerpt(first_bytes_));
    if (first_bytes_.size() < kPreambleBytes) return;
    const auto preamble = std::exchange(first_bytes_, {});
    const auto agreed = check_preamble(std::span<const std::byte, kPreambleBytes>(preamble), version_);
    if (!agreed) return fail_with(agreed.error().code, agreed.error().what);
    phase_ = Phase::open;
  }
  if (const auto fed = frames_.feed(plaintext, messages_); !fed)
    return fail_with(fed.error().code, fed.error().what);
  if (frames_.ended()) phase_ = Phase::ended;
}

void ChannelProtocol::write_preamble() {
  const auto preamble = encode_preamble(version_);
  if (tls_) return write(preamble);
  output_.insert(output_.end(), preamble.begin(), preamble.end());
}

void ChannelProtocol::write(std::span<const std::byte> plaintext) {
  if (!tls_) {
    output_.insert(output_.end(), plaintext.begin(), plaintext.end());
    return;
  }
  const auto written = tls_->write(plaintext);
  tls_->take_output(output_);
  if (!written) fail_with(written.error().code, written.error().what);
}

std::optional<std::array<std::byte, 16>> ChannelProtocol::binding() const {
  return tls_ && tls_->established() ? std::optional(tls_->exported()) : std::nullopt;
}

void ChannelProtocol::goodbye() {
  write(encode_length(kGoodbye));
  if (!tls_) return;
  tls_->close();
  tls_->take_output(output_);
}

}  // namespace rdmc::control

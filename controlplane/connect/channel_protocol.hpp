// Everything a channel does except moving bytes: telling TLS from plaintext from strangers by the first
// bytes, TLS, the preambles, frames, and the goodbye. Pure: bytes from the peer go in, messages and bytes for
// the peer come out; no socket, no clock. The driver (connection.hpp) owns it; the loop's thread.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "controlplane/auth/tls.hpp"
#include "controlplane/connect/channel_options.hpp"
#include "controlplane/connect/framing.hpp"

namespace rdmc::control {

class ChannelProtocol {
 public:
  /// A peer that has not proved anything yet may make us hold this many bytes; a ClientHello has some 300,
  /// and 2 KB with post-quantum key shares.
  static constexpr std::size_t kMaxUnprovedBytes = 8 * 1024;

  ChannelProtocol(Role role, const ChannelOptions& options);

  /// Client: output() gets the first words. A server waits for the client's.
  void start();
  /// Takes what the peer sent. After a failure or the end it is ignored.
  void receive(std::span<const std::byte> bytes);

  /// Both sides have proved the key and agree on the version.
  bool established() const { return phase_ == Phase::open || phase_ == Phase::ended; }
  /// The peer said goodbye.
  bool ended() const { return phase_ == Phase::ended; }
  /// What went wrong, once something did: authentication, version_mismatch, protocol_error, corrupt. Output
  /// may hold last words that tell the peer; send them. Messages that came before are still there.
  const std::optional<Error>& failure() const { return failure_; }
  /// A message has begun and not ended.
  bool mid_message() const { return frames_.mid_message(); }

  std::deque<Message>& messages() { return messages_; }

  /// Appends `plaintext`, bytes of frames, to the output. Established only; at most 16 KiB gives one TLS
  /// record.
  void write(std::span<const std::byte> plaintext);
  /// The last thing to write.
  void goodbye();

  /// The exporter value of the TLS session that carries the channel, once the session is established. A
  /// channel that is not encrypted has none.
  std::optional<std::array<std::byte, 16>> binding() const;

  /// What waits to be sent; the driver consumes it.
  std::vector<std::byte>& output() { return output_; }

 private:
  enum class Phase { first_bytes, tls_handshake, preamble, open, ended, failed };

  void fail_with(Errc code, std::string what);
  void look_at_first_bytes();
  void first_bytes_for_tls();
  void first_bytes_for_plaintext();
  void drive_tls(std::span<const std::byte> ciphertext);
  void on_plaintext(std::span<const std::byte> plaintext);
  void write_preamble();

  const Role role_;
  const Security security_;
  const std::uint16_t version_;
  Phase phase_ = Phase::first_bytes;
  std::optional<TlsSession> tls_;
  std::vector<std::byte> first_bytes_;  // what came before we knew what it is; then the preamble as it comes
  std::size_t unproved_bytes_ = 0;
  FrameReader frames_;
  std::deque<Message> messages_;
  std::vector<std::byte> output_;
  std::optional<Error> failure_;
};

}  // namespace rdmc::control

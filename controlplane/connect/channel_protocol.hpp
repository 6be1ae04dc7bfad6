// Everything that a channel does except I/O. The first bytes from the peer show whether the peer uses TLS,
// plaintext or another protocol. The TLS handshake, the preambles, the frames and the goodbye follow. This is
// a core: its input is bytes from the peer, and its output is messages and bytes for the peer. The driver
// (connection.hpp) owns it. It must be used only on the control loop's thread.
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
  /// The largest number of bytes from a peer that this side stores before the peer has proved itself. A
  /// ClientHello has about 300 bytes, or 2 KB with post-quantum key shares.
  static constexpr std::size_t kMaxUnprovedBytes = 8 * 1024;

  ChannelProtocol(Role role, const ChannelOptions& options);

  /// Begins the handshake. On a client, output() then contains the first bytes for the server. A server waits
  /// for the client's bytes.
  void start();
  /// Takes in bytes from the peer. After a failure or after the peer's goodbye, the bytes are ignored.
  void receive(std::span<const std::byte> bytes);

  /// True if both sides have proved themselves and use the same version.
  bool established() const { return phase_ == Phase::open || phase_ == Phase::ended; }
  /// True if the peer has sent a goodbye.
  bool ended() const { return phase_ == Phase::ended; }
  /// Returns the error, if one has happened: authentication, version_mismatch, protocol_error, corrupt or
  /// resource_limit. The output may then contain bytes that report the reason to the peer, and the driver
  /// should send them. Messages that arrived before the error are still in messages().
  const std::optional<Error>& failure() const { return failure_; }
  /// True if a frame has begun to arrive and is not complete.
  bool mid_message() const { return frames_.mid_message(); }

  std::deque<Message>& messages() { return messages_; }

  /// Appends `plaintext` to the output, encrypted if the channel uses TLS. `plaintext` must consist of bytes
  /// of frames. Precondition: established(). Plaintext of at most 16 KiB becomes one TLS record.
  void write(std::span<const std::byte> plaintext);
  /// Writes the goodbye. The caller must write nothing after it.
  void goodbye();

  /// Returns the exporter value of the TLS session. Returns nullopt if the session is not established or if
  /// the channel is not encrypted.
  std::optional<std::array<std::byte, 16>> binding() const;

  /// The bytes that wait to be sent. The driver removes the bytes that it has sent.
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
  // Before the protocol is recognized: all bytes that have arrived. After that: the part of the preamble that
  // has arrived.
  std::vector<std::byte> first_bytes_;
  std::size_t unproved_bytes_ = 0;
  FrameReader frames_;
  std::deque<Message> messages_;
  std::vector<std::byte> output_;
  std::optional<Error> failure_;
};

}  // namespace rdmc::control

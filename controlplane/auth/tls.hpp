// TLS 1.3 as a core without sockets: ciphertext goes in, ciphertext and plaintext come out, and the driver
// moves the bytes. Each side proves that it belongs to the cluster, either with the cluster key as an
// external pre-shared key or with a certificate. If the peer does not have the key, or has no certificate of
// an authority that the other side trusts, both sides fail with Errc::authentication. A lost connection never
// gives this error. Any number of sessions and threads may share a TlsContext. A TlsSession belongs to one
// thread.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "controlplane/auth/cluster_key.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::control {

/// The beginning of the PSK identity. The identity is "rdmc " and 16 hexadecimal digits that name the key. It
/// is sent in the ClientHello, so it is public.
inline constexpr std::string_view kTlsIdentity = "rdmc ";
/// The labels under which the PSK and the key's name are derived from a cluster key.
inline constexpr std::string_view kTlsLabel = "rdmc control tls 1.3 psk",
                                  kTlsNameLabel = "rdmc control key name";

enum class Role { client, server };

/// The PEM files of one member. Every process that shows a valid certificate signed by one of the authorities
/// belongs to the cluster. These authorities must therefore sign certificates for members of the cluster
/// only. Names in certificates are not compared, because all members have equal rights and their addresses
/// change.
struct CertificateFiles {
  /// The certificate of the authority that signs the members' certificates. The file contains several
  /// certificates while a new authority replaces an old one.
  std::filesystem::path authority;
  /// This member's certificate, followed by the certificates between it and the authority.
  std::filesystem::path certificate;
  /// The private key of the certificate, without a passphrase. The file's mode must be 0600 or less.
  std::filesystem::path private_key;

  friend bool operator==(const CertificateFiles&, const CertificateFiles&) = default;
};

/// The state that all sessions of one cluster share. An object of this class is a cheap handle: copies share
/// one state.
class TlsContext {
 public:
  /// Makes a context that uses one key. It keeps only values derived from `key`, not the key itself. Errors:
  /// unsupported if this OpenSSL lacks a function that is needed.
  static Result<TlsContext> create(const ClusterKey& key);
  /// Makes a context that uses the keys of a file. Each session uses the keys that are in the file when the
  /// session begins: a client proves that it holds the first key, and a server accepts a proof of any of
  /// them. While the file cannot be read, new sessions use the keys that were read before. Errors: those of
  /// ClusterKey::load and create.
  static Result<TlsContext> follow(const std::filesystem::path& key_file);
  /// Makes a context that uses certificates. The files are read again when they change, as for a key file. If
  /// the three files do not match each other yet, they count as files that cannot be read. Errors:
  /// invalid_argument; permission_denied if others can read the private key; those of stat(2) for the private
  /// key.
  static Result<TlsContext> follow(const CertificateFiles& files);

  /// Checks whether the files have changed, as each new session does. If the present content of the files
  /// cannot be used, returns the reason as an error, and sessions use the content that was read before.
  Result<void> look() const;

 private:
  friend class TlsSession;
  class Shared;
  explicit TlsContext(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  std::shared_ptr<Shared> shared_;
};

class TlsSession {
 public:
  /// Begins a session. Errors: resource_limit.
  static Result<TlsSession> create(const TlsContext& context, Role role);
  TlsSession(TlsSession&&) noexcept;
  TlsSession& operator=(TlsSession&&) noexcept;
  ~TlsSession();

  /// Takes in ciphertext from the peer. The next handshake() or read() processes it. Errors: resource_limit.
  Result<void> receive(std::span<const std::byte> ciphertext);

  /// Continues the handshake. Returns true once the handshake is finished and the peer has proved that it
  /// holds the key or a certificate. Errors: authentication; protocol_error (the peer does not speak TLS
  /// 1.3). After an error the output may still contain an alert for the peer.
  Result<bool> handshake();
  bool established() const { return established_; }

  /// Decrypts into `plaintext` and returns the number of bytes. Returns 0 if more ciphertext is needed or if
  /// the peer has sent close_notify. Errors: corrupt (a record was tampered with); protocol_error;
  /// authentication (the peer does not accept this side's proof, and reports this only after the handshake
  /// has finished here).
  Result<std::size_t> read(std::span<std::byte> plaintext);
  /// Encrypts all of `plaintext`, which must not be empty. Plaintext of at most 16 KiB becomes one record.
  /// Errors: protocol_error.
  Result<void> write(std::span<const std::byte> plaintext);
  /// Returns a value that both ends of this session share and that differs between sessions. No process can
  /// give two sessions the same value (a channel binding, RFC 9266). Precondition: established(). Throws
  /// std::bad_alloc.
  std::array<std::byte, 16> exported() const;
  /// Encrypts a close_notify for the peer.
  void close();

  /// Appends the ciphertext that waits to be sent to `to`.
  void take_output(std::vector<std::byte>& to);

 private:
  struct State;
  explicit TlsSession(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
  bool established_ = false;
};

}  // namespace rdmc::control

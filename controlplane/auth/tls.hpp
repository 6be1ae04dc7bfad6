// TLS 1.3 with the cluster key as an external pre-shared key, or with certificates on both sides, as a state
// machine without sockets: ciphertext goes in, ciphertext and plaintext come out, and the driver moves the
// bytes. A peer without the key, or without a certificate of our authority, fails with Errc::authentication
// on both sides, which a lost connection never does. TlsContext is shared by any number of sessions and
// threads; a TlsSession belongs to one thread.
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

/// The PSK identity in the ClientHello, which is public, is "rdmc " and 16 hexadecimal digits that name the
/// key.
inline constexpr std::string_view kTlsIdentity = "rdmc ";
/// The labels under which the PSK and the name are derived from a cluster key.
inline constexpr std::string_view kTlsLabel = "rdmc control tls 1.3 psk",
                                  kTlsNameLabel = "rdmc control key name";

enum class Role { client, server };

/// PEM files of one member. Whoever shows a certificate that one of the authorities has signed, and that is
/// in force, belongs to the cluster: the authority must sign for nothing else. Names in certificates are not
/// compared, since members have equal rights and addresses change.
struct CertificateFiles {
  std::filesystem::path authority;    ///< who signs; several while one replaces another
  std::filesystem::path certificate;  ///< ours, then those between it and the authority
  std::filesystem::path private_key;  ///< of the certificate, without a passphrase; mode 0600 or less

  friend bool operator==(const CertificateFiles&, const CertificateFiles&) = default;
};

/// What every session of one cluster has in common. A cheap handle: copies share one context.
class TlsContext {
 public:
  /// Keeps what it derives from `key`, not the key. Errors: unsupported (this OpenSSL cannot do it).
  static Result<TlsContext> create(const ClusterKey& key);
  /// With the keys of a file, whatever they are when a session begins: clients prove the first, servers
  /// accept any. While the file cannot be read, the keys stay. Errors: those of ClusterKey::load and create.
  static Result<TlsContext> follow(const std::filesystem::path& key_file);
  /// With certificates, read anew likewise; three files that do not fit each other yet count as one that
  /// cannot be read. Errors: invalid_argument, permission_denied (others can read the private key), those of
  /// looking at files.
  static Result<TlsContext> follow(const CertificateFiles& files);

  /// Looks at the files, as every session does when it begins. Errors: why what they hold now is not what
  /// sessions prove themselves with: they go on with what was read before.
  Result<void> look() const;

 private:
  friend class TlsSession;
  class Shared;
  explicit TlsContext(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  std::shared_ptr<Shared> shared_;
};

class TlsSession {
 public:
  /// Errors: resource_limit.
  static Result<TlsSession> create(const TlsContext& context, Role role);
  TlsSession(TlsSession&&) noexcept;
  TlsSession& operator=(TlsSession&&) noexcept;
  ~TlsSession();

  /// Takes ciphertext from the peer. Nothing is processed until handshake() or read().
  Result<void> receive(std::span<const std::byte> ciphertext);

  /// Goes on with the handshake; true once it is finished and the peer has proved to hold the key. Errors:
  /// authentication; protocol_error (not TLS 1.3, or not TLS). Output may hold an alert for the peer even
  /// then.
  Result<bool> handshake();
  bool established() const { return established_; }

  /// Decrypts into `plaintext`; returns how many bytes, 0 when more ciphertext is needed or the peer said
  /// goodbye. Errors: corrupt (a record was tampered with), protocol_error.
  Result<std::size_t> read(std::span<std::byte> plaintext);
  /// Encrypts all of `plaintext` (not empty, at most 16 KiB gives one record). Errors: protocol_error.
  Result<void> write(std::span<const std::byte> plaintext);
  /// A value that this session's two ends share and nobody can make equal in two sessions (a channel binding,
  /// RFC 9266). Only once established. Throws std::bad_alloc.
  std::array<std::byte, 16> exported() const;
  /// Encrypts our close_notify.
  void close();

  /// Appends the ciphertext that waits to be sent.
  void take_output(std::vector<std::byte>& to);

 private:
  struct State;
  explicit TlsSession(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
  bool established_ = false;
};

}  // namespace rdmc::control

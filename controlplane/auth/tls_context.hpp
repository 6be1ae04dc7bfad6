// What the sessions of a TlsContext are made of: the keys or certificates as OpenSSL wants them, read again
// when their files have changed. Internal to this folder; any thread.
#pragma once

#include <openssl/ssl.h>
#include <sys/types.h>

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "controlplane/auth/tls.hpp"

namespace rdmc::control {

/// One key as TLS knows it.
struct NamedPsk {
  Secret<ClusterKey::kBytes> psk;
  std::string identity;
};
using KeyRing = std::vector<NamedPsk>;  // the first begins connections

/// Of one session, for as long as it lives.
struct Credentials {
  std::shared_ptr<SSL_CTX> context;
  std::shared_ptr<const KeyRing> ring;  ///< null: certificates
};

std::string reason_text(unsigned long error);

/// Tells one content of a file from another, and one mode.
struct Stamp {
  ino_t inode = 0;
  mode_t mode = 0;  ///< by itself: a change within one tick of the clock leaves the time as it was
  off_t bytes = 0;
  std::int64_t changed_ns = 0;
  bool operator==(const Stamp&) const = default;
};

class TlsContext::Shared {
 public:
  /// One key for ever. Errors: those of ClusterKey::derive and of TlsContext::create.
  Result<void> set(const ClusterKey& key);
  /// Errors: of the first reading.
  Result<void> follow(const std::filesystem::path& key_file);
  Result<void> follow(const CertificateFiles& files);

  Credentials credentials();
  /// Errors: of reading the files; what was read before stays.
  Result<void> look();

 private:
  using Stamps = std::vector<std::optional<Stamp>>;
  Stamps stamps() const;
  Result<void> read_changes();
  Result<Credentials> load() const;

  std::mutex mutex_;
  std::vector<std::filesystem::path> files_;  // one: keys; three: CertificateFiles, in its order
  Stamps stamps_;
  Credentials credentials_;
};

}  // namespace rdmc::control

// The shared state of a TlsContext: the keys or certificates in the form that OpenSSL needs. They are read
// again when their files have changed. Internal to this folder. May be used from any thread.
#pragma once

#include <openssl/ssl.h>
#include <sys/types.h>

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "controlplane/auth/tls.hpp"

namespace rdmc::control {

/// A cluster key in the form that TLS uses.
struct NamedPsk {
  Secret<ClusterKey::kBytes> psk;
  std::string identity;
};
using KeyRing = std::vector<NamedPsk>;  // A client proves the first key.

/// The credentials of one session. The session holds them for its whole life.
struct Credentials {
  std::shared_ptr<SSL_CTX> context;
  std::shared_ptr<const KeyRing> ring;  ///< Null if certificates are used.
};

std::string reason_text(unsigned long error);

/// The metadata by which one version of a file differs from another one.
struct Stamp {
  ino_t inode = 0;
  /// The mode is compared because a chmod within one tick of the file system's clock does not change the
  /// time.
  mode_t mode = 0;
  off_t bytes = 0;
  std::int64_t changed_ns = 0;
  bool operator==(const Stamp&) const = default;
};

class TlsContext::Shared {
 public:
  /// Uses one key, which never changes. Errors: those of ClusterKey::derive and of TlsContext::create.
  Result<void> set(const ClusterKey& key);
  /// Errors: those of the first read of the files.
  Result<void> follow(const std::filesystem::path& key_file);
  Result<void> follow(const CertificateFiles& files);

  Credentials credentials();
  /// Reads the files again if they have changed. Errors: those of reading the files. What was read before
  /// then stays in use.
  Result<void> look();

 private:
  using Stamps = std::vector<std::optional<Stamp>>;
  Stamps stamps() const;
  Result<void> read_changes();
  Result<Credentials> load() const;

  std::mutex mutex_;
  // Either one key file, or the three files of CertificateFiles in their order.
  std::vector<std::filesystem::path> files_;
  Stamps stamps_;
  Credentials credentials_;
};

}  // namespace rdmc::control

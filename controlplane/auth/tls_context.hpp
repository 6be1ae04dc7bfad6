// The shared state of a TlsContext: the keys or certificates in the form that OpenSSL needs. They are read
// again when their files have changed. Internal to this folder. Functions may be called from any thread.
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
using KeyRing = std::vector<NamedPsk>;  // A client proves that it holds the first key.

/// The credentials of one session. The session holds them for its whole life.
struct Credentials {
  std::shared_ptr<SSL_CTX> context;
  std::shared_ptr<const KeyRing> ring;  ///< Null if certificates are used.
};

std::string reason_text(unsigned long error);

/// Metadata of a file. Two different versions of the file have different stamps.
struct Stamp {
  ino_t inode = 0;
  /// The mode is part of the stamp because the clock of a file system is coarse. A chmod within one tick of
  /// this clock does not change the file's time.
  mode_t mode = 0;
  off_t bytes = 0;
  std::int64_t changed_ns = 0;
  bool operator==(const Stamp&) const = default;
};

class TlsContext::Shared {
 public:
  /// Sets one key, which never changes. Errors: those of ClusterKey::derive and of TlsContext::create.
  Result<void> set(const ClusterKey& key);
  /// Read the files for the first time. Errors: those of opening and parsing the files.
  Result<void> follow(const std::filesystem::path& key_file);
  Result<void> follow(const CertificateFiles& files);

  Credentials credentials();
  /// Reads the files again if they have changed. If this fails, returns the error, and the content that was
  /// read before stays in use.
  Result<void> look();

 private:
  using Stamps = std::vector<std::optional<Stamp>>;
  Stamps stamps() const;
  Result<void> read_changes();
  Result<Credentials> load() const;

  std::mutex mutex_;
  // The path of one key file, or the paths of the three files of CertificateFiles in their order.
  std::vector<std::filesystem::path> files_;
  Stamps stamps_;
  Credentials credentials_;
};

}  // namespace rdmc::control

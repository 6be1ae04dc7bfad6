// The secret that all members of a cluster share: who holds it may join, who does not is refused by the TLS
// handshake. 32 random bytes, kept in a file that only its owner can read, or in memory alone for
// the processes of one machine. Never passed in arguments or the environment, which other users can read.
// Move-only, wiped when destroyed; a const key may be used from any thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "controlplane/auth/secret.hpp"
#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::control {

class ClusterKey {
 public:
  static constexpr std::size_t kBytes = 32;
  /// The text is this prefix and 64 hexadecimal digits. The number is the format's version.
  static constexpr std::string_view kPrefix = "rdmc-key-1:";

  /// A new key from the operating system's generator. Errors: those of fill_random.
  static Result<ClusterKey> generate();

  /// In a file, while keys are rotated.
  static constexpr std::size_t kMostKeys = 4;

  /// Reads a key file: a line each for 1 to kMostKeys keys, the first of which begins connections; all are
  /// accepted. Errors: not_found; permission_denied, when group or others have any access to it (the text has
  /// the chmod command that repairs it) or we may not read it; invalid_argument, when it has anything else.
  static Result<std::vector<ClusterKey>> load(const std::filesystem::path& path);

  /// Reads the key from a descriptor inherited from the parent (a memfd of share(), or a pipe). The
  /// descriptor stays open and its file offset unmoved if it has one: several children may share it.
  static Result<ClusterKey> load(int descriptor);

  /// Parses the text form; a trailing newline may be there. Errors: invalid_argument, never quoting the text.
  static Result<ClusterKey> parse(std::string_view text);

  /// Makes a new file of mode 0600, flushed to disk. Errors: already_exists (it never replaces one), and
  /// those of the file system; a file half written is removed.
  Result<void> write(const std::filesystem::path& path) const;

  /// Puts a file of mode 0600 with these keys in the place of the file that is there, in one step: a reader
  /// sees the old keys or the new ones. Errors: invalid_argument (none, or more than kMostKeys), those of the
  /// file system.
  static Result<void> replace(const std::filesystem::path& path, std::span<const ClusterKey> keys);

  /// The key in a sealed memfd, close-on-exec: whoever starts a child dup2()s it to a number of its choice in
  /// that child alone, and passes the number. Errors: resource_limit.
  Result<Descriptor> share() const;

  /// The line of the file, without the newline. The caller prints it, and to nobody else.
  std::string text() const;

  /// A key for one purpose: HKDF-SHA-256 (RFC 5869) of this one, with `label` as info. Different labels give
  /// independent keys, so that the leak of one says nothing of another. Errors: unsupported (OpenSSL without
  /// HKDF).
  Result<Secret<kBytes>> derive(std::string_view label) const;

 private:
  ClusterKey() = default;
  static Result<void> write_file(const std::filesystem::path& path, std::span<const ClusterKey> keys);
  Secret<kBytes> secret_;
};

}  // namespace rdmc::control

// The secret that all members of a cluster share. A process that holds the key may join the cluster. The TLS
// handshake refuses a process that does not hold it. The key has 32 random bytes. It is kept in a file that
// only its owner can read, or only in memory for the processes of one machine. It must never be passed in
// arguments or in the environment, because other users can read those. The type is move-only, and a key is
// wiped when it is destroyed. A const key may be used from any thread.
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
  /// The text form is this prefix and 64 hexadecimal digits. The digit in the prefix is the version of the
  /// format.
  static constexpr std::string_view kPrefix = "rdmc-key-1:";

  /// Makes a new key from the operating system's random generator. Errors: those of fill_random.
  static Result<ClusterKey> generate();

  /// The largest number of keys in one file. A file holds several keys while keys are rotated.
  static constexpr std::size_t kMostKeys = 4;

  /// Reads a key file of 1 to kMostKeys lines, one key in each line. A client proves that it holds the first
  /// key, and a server accepts a proof of any of them. Errors:
  /// - not_found: there is no such file.
  /// - permission_denied: the group or others have any access to the file (the error text has the chmod
  ///   command that repairs this), or this process is not allowed to read the file.
  /// - invalid_argument: the file has any other content.
  static Result<std::vector<ClusterKey>> load(const std::filesystem::path& path);

  /// Reads the key from a descriptor that this process has inherited from its parent (a memfd of share(), or
  /// a pipe). The descriptor stays open. If it has a file offset, the offset does not move, so several
  /// children can share the descriptor.
  static Result<ClusterKey> load(int descriptor);

  /// Parses the text form, with or without one newline at its end. Errors: invalid_argument; the error text
  /// never quotes the input.
  static Result<ClusterKey> parse(std::string_view text);

  /// Creates a new file of mode 0600 and flushes it to disk. A file that is only partly written is removed.
  /// Errors: already_exists (an existing file is never replaced), and those of the file system.
  Result<void> write(const std::filesystem::path& path) const;

  /// Replaces the key file by a file of mode 0600 with these keys, in one step: a reader sees either the old
  /// keys or the new ones. Errors: invalid_argument if there are no keys or more than kMostKeys, and those of
  /// the file system.
  static Result<void> replace(const std::filesystem::path& path, std::span<const ClusterKey> keys);

  /// Returns the key in a sealed memfd with the close-on-exec flag. A parent that starts a child must dup2()
  /// the memfd to another descriptor in that child alone, and pass the number of that descriptor to the
  /// child. Errors: resource_limit.
  Result<Descriptor> share() const;

  /// Returns the key's line in a key file, without the newline. The caller may print the line, but must show
  /// it to nobody else.
  std::string text() const;

  /// Derives a key for one purpose: HKDF-SHA-256 (RFC 5869) of this key, with `label` as info. Different
  /// labels give independent keys, so a derived key that becomes known reveals nothing about another derived
  /// key. Errors: unsupported if OpenSSL has no HKDF.
  Result<Secret<kBytes>> derive(std::string_view label) const;

 private:
  ClusterKey() = default;
  static Result<void> write_file(const std::filesystem::path& path, std::span<const ClusterKey> keys);
  Secret<kBytes> secret_;
};

}  // namespace rdmc::control

#include "controlplane/auth/cluster_key.hpp"

#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <span>

#include "controlplane/auth/random.hpp"

namespace rdmc::control {
namespace {

constexpr std::size_t kTextBytes = ClusterKey::kPrefix.size() + 2 * ClusterKey::kBytes;
/// Memory for the text of kMostKeys lines with their line ends, and for a few more bytes. If a read also
/// fills those bytes, the file is too long for a key file.
using TextBuffer = Secret<512>;
static_assert(ClusterKey::kMostKeys * (kTextBytes + 2) < 512);

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Writes the key's line and its newline into `out`. Returns the number of bytes that it has written.
std::size_t format(std::span<const std::byte> key, std::span<std::byte> out) {
  std::size_t at = 0;
  const auto put = [&](char c) { out[at++] = static_cast<std::byte>(c); };
  for (const char c : ClusterKey::kPrefix) put(c);
  for (const std::byte b : key) {
    put("0123456789abcdef"[std::to_integer<unsigned>(b) >> 4]);
    put("0123456789abcdef"[std::to_integer<unsigned>(b) & 15]);
  }
  put('\n');
  return at;
}

Result<void> write_all(int fd, std::span<const std::byte> bytes, const std::string& what) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return fail_errno(what, errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

/// Reads until the end of the file or until `out` is full. A file is read from its start without moving the
/// file offset, because children share the file offset with their parent. A pipe has no offset, so its bytes
/// are read in order.
Result<std::size_t> read_all(int fd, std::span<std::byte> out, const std::string& what) {
  std::size_t filled = 0;
  bool seekable = true;
  while (filled < out.size()) {
    const auto rest = out.subspan(filled);
    const ssize_t got = seekable ? ::pread(fd, rest.data(), rest.size(), static_cast<off_t>(filled))
                                 : ::read(fd, rest.data(), rest.size());
    if (got == 0) break;
    if (got > 0) {
      filled += static_cast<std::size_t>(got);
    } else if (errno == ESPIPE) {
      seekable = false;
    } else if (errno != EINTR) {
      return fail_errno(what, errno);
    }
  }
  return filled;
}

Result<std::vector<ClusterKey>> read_keys(int fd, const std::string& what) {
  TextBuffer buffer;
  const auto length = read_all(fd, buffer.bytes(), what);
  if (!length) return std::unexpected(length.error());
  std::string_view text(reinterpret_cast<const char*>(buffer.bytes().data()), *length);
  std::vector<ClusterKey> keys;
  do {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    auto key = ClusterKey::parse(line);
    if (!key) return fail(key.error().code, what + ": " + key.error().what);
    keys.push_back(std::move(*key));
  } while (!text.empty() && keys.size() < ClusterKey::kMostKeys);
  if (!text.empty())
    return fail(Errc::invalid_argument,
                what + ": more than " + std::to_string(ClusterKey::kMostKeys) + " keys");
  return keys;
}

}  // namespace

Result<ClusterKey> ClusterKey::generate() {
  ClusterKey key;
  if (auto filled = fill_random(key.secret_.bytes()); !filled) return std::unexpected(filled.error());
  return key;
}

Result<ClusterKey> ClusterKey::parse(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.ends_with('\r')) text.remove_suffix(1);
  const auto malformed = [](std::string why) {
    return fail(Errc::invalid_argument, "not a cluster key: " + std::move(why));
  };
  if (!text.starts_with(kPrefix)) return malformed("it does not start with '" + std::string(kPrefix) + "'");
  if (text.size() != kTextBytes)
    return malformed("it has " + std::to_string(text.size()) + " characters, not " +
                     std::to_string(kTextBytes));
  ClusterKey key;
  for (std::size_t i = 0; i < kBytes; ++i) {
    const int high = digit_value(text[kPrefix.size() + 2 * i]);
    const int low = digit_value(text[kPrefix.size() + 2 * i + 1]);
    if (high < 0 || low < 0) return malformed("it has a character that is no hexadecimal digit");
    key.secret_.bytes()[i] = static_cast<std::byte>(high << 4 | low);
  }
  return key;
}

Result<std::vector<ClusterKey>> ClusterKey::load(const std::filesystem::path& path) {
  const std::string what = "key file " + path.string();
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!file) return fail_errno(what, errno);
  struct stat status;
  if (::fstat(file.get(), &status) != 0) return fail_errno(what, errno);
  if (S_ISDIR(status.st_mode)) return fail(Errc::invalid_argument, what + ": is a directory");
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return fail(
        Errc::permission_denied,
        what + ": other users have access to it, so it may be known; run: chmod 600 '" + path.string() + "'");
  return read_keys(file.get(), what);
}

Result<ClusterKey> ClusterKey::load(int descriptor) {
  auto keys = read_keys(descriptor, "key from descriptor " + std::to_string(descriptor));
  if (!keys) return std::unexpected(keys.error());
  return std::move(keys->front());
}

Result<void> ClusterKey::write(const std::filesystem::path& path) const {
  return write_file(path, {this, 1});
}

Result<void> ClusterKey::replace(const std::filesystem::path& path, std::span<const ClusterKey> keys) {
  if (keys.empty() || keys.size() > kMostKeys)
    return fail(Errc::invalid_argument, "a key file has 1 to " + std::to_string(kMostKeys) + " keys");
  auto beside = path;
  beside += ".new";
  if (auto written = write_file(beside, keys); !written) return written;
  if (::rename(beside.c_str(), path.c_str()) == 0) return {};
  const int error = errno;
  ::unlink(beside.c_str());
  return fail_errno("key file " + path.string(), error);
}

Result<void> ClusterKey::write_file(const std::filesystem::path& path, std::span<const ClusterKey> keys) {
  const std::string what = "key file " + path.string();
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return fail_errno(what, errno);
  Result<void> written;
  for (const ClusterKey& key : keys) {
    TextBuffer line;
    const std::size_t length = format(key.secret_.bytes(), line.bytes());
    if (written) written = write_all(file.get(), line.bytes().first(length), what);
  }
  // The umask may have cleared bits of the mode that open() was given, so fchmod() sets them again.
  if (written && (::fchmod(file.get(), 0600) != 0 || ::fsync(file.get()) != 0))
    written = fail_errno(what, errno);
  if (!written) ::unlink(path.c_str());
  return written;
}

Result<Descriptor> ClusterKey::share() const {
  Descriptor memory(::memfd_create("rdmc-key", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return fail_errno("memfd_create", errno);
  TextBuffer line;
  const std::size_t length = format(secret_.bytes(), line.bytes());
  if (auto written = write_all(memory.get(), line.bytes().first(length), "memfd"); !written)
    return std::unexpected(written.error());
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0)
    return fail_errno("memfd seals", errno);
  return memory;
}

std::string ClusterKey::text() const {
  TextBuffer line;
  const std::size_t length = format(secret_.bytes(), line.bytes());
  return {reinterpret_cast<const char*>(line.bytes().data()), length - 1};
}

Result<Secret<ClusterKey::kBytes>> ClusterKey::derive(std::string_view label) const {
  const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr),
                                                              EVP_KDF_free);
  const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(EVP_KDF_CTX_new(kdf.get()),
                                                                          EVP_KDF_CTX_free);
  if (!context) return fail(Errc::unsupported, "OpenSSL has no HKDF");
  // OSSL_PARAM has no const form. The KDF only reads these strings.
  char digest[] = "SHA256";
  char salt[] = "rdmc cluster key";
  const std::array parameters{
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, salt, sizeof salt - 1),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, const_cast<std::byte*>(secret_.bytes().data()),
                                        kBytes),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, const_cast<char*>(label.data()), label.size()),
      OSSL_PARAM_construct_end(),
  };
  Secret<kBytes> out;
  if (EVP_KDF_derive(context.get(), reinterpret_cast<unsigned char*>(out.bytes().data()), kBytes,
                     parameters.data()) != 1)
    return fail(Errc::unsupported, "OpenSSL refuses HKDF with SHA-256");
  return out;
}

}  // namespace rdmc::control

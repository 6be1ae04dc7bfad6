#include "controlplane/auth/tls_context.hpp"

#include <openssl/err.h>
#include <sys/stat.h>

#include <algorithm>

namespace rdmc::control {
namespace {

Result<KeyRing> make_ring(std::span<const ClusterKey> keys) {
  KeyRing ring;
  for (const ClusterKey& key : keys) {
    auto psk = key.derive(kTlsLabel);
    if (!psk) return std::unexpected(psk.error());
    const auto name = key.derive(kTlsNameLabel);
    if (!name) return std::unexpected(name.error());
    NamedPsk named{std::move(*psk), std::string(kTlsIdentity)};
    for (const std::byte byte : name->bytes().first(8))
      for (const unsigned digit :
           {std::to_integer<unsigned>(byte) >> 4, std::to_integer<unsigned>(byte) & 15})
        named.identity += "0123456789abcdef"[digit];
    ring.push_back(std::move(named));
  }
  return ring;
}

const KeyRing& ring_of(const SSL* ssl) {
  return *static_cast<const KeyRing*>(SSL_get_app_data(ssl));
}

/// Returns the PSK in the form that OpenSSL needs, which is a session object. The object does not belong to a
/// real session. Returns null if there is no memory.
SSL_SESSION* make_psk_session(SSL* ssl, const Secret<ClusterKey::kBytes>& psk) {
  static constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};
  std::unique_ptr<SSL_SESSION, decltype(&SSL_SESSION_free)> session(SSL_SESSION_new(), SSL_SESSION_free);
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kAes128GcmSha256);
  if (!session || cipher == nullptr) return nullptr;
  const auto* bytes = reinterpret_cast<const unsigned char*>(psk.bytes().data());
  if (SSL_SESSION_set1_master_key(session.get(), bytes, ClusterKey::kBytes) != 1 ||
      SSL_SESSION_set_cipher(session.get(), cipher) != 1 ||
      SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) != 1)
    return nullptr;
  return session.release();
}

int offer_psk(SSL* ssl, const EVP_MD*, const unsigned char** identity, std::size_t* identity_length,
              SSL_SESSION** session) {
  const NamedPsk& first = ring_of(ssl).front();
  *session = make_psk_session(ssl, first.psk);
  *identity = reinterpret_cast<const unsigned char*>(first.identity.data());
  *identity_length = first.identity.size();
  return *session != nullptr;
}

int find_psk(SSL* ssl, const unsigned char* identity, std::size_t identity_length, SSL_SESSION** session) {
  const std::string_view name(reinterpret_cast<const char*>(identity), identity_length);
  const KeyRing& ring = ring_of(ssl);
  const auto found = std::ranges::find(ring, name, &NamedPsk::identity);
  *session = nullptr;
  // The key is unknown, so the handshake continues without a PSK. It then fails because this side has no
  // certificate.
  if (found == ring.end()) return 1;
  *session = make_psk_session(ssl, found->psk);
  return *session != nullptr;
}

std::optional<Stamp> stamp_of(const std::filesystem::path& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return Stamp{status.st_ino, status.st_mode, status.st_size,
               status.st_ctim.tv_sec * std::int64_t{1'000'000'000} + status.st_ctim.tv_nsec};
}

Result<std::shared_ptr<SSL_CTX>> make_context() {
  ERR_clear_error();
  std::shared_ptr<SSL_CTX> shared(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  SSL_CTX* const context = shared.get();
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") != 1 ||
      SSL_CTX_set1_groups_list(context, "X25519:P-256") != 1 || SSL_CTX_set_num_tickets(context, 0) != 1)
    return fail(Errc::unsupported,
                "OpenSSL cannot do TLS 1.3 as we need it: " + reason_text(ERR_peek_error()));
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);  // An idle session keeps no record buffers (34 KB).
  return shared;
}

Result<Credentials> with_keys(std::span<const ClusterKey> keys) {
  auto context = make_context();
  if (!context) return std::unexpected(context.error());
  auto ring = make_ring(keys);
  if (!ring) return std::unexpected(ring.error());
  SSL_CTX_set_psk_use_session_callback(context->get(), offer_psk);
  SSL_CTX_set_psk_find_session_callback(context->get(), find_psk);
  return Credentials{std::move(*context), std::make_shared<const KeyRing>(std::move(*ring))};
}

std::unexpected<Error> unusable(const std::filesystem::path& file, const char* what) {
  return fail(Errc::invalid_argument,
              file.string() + ": " + what + " (" + reason_text(ERR_peek_error()) + ")");
}

Result<void> check_private(const std::filesystem::path& file) {
  struct stat status;
  if (::stat(file.c_str(), &status) != 0) return fail_errno(file.string(), errno);
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) == 0) return {};
  return fail(
      Errc::permission_denied,
      file.string() + ": other users have access to the private key; run: chmod 600 '" + file.string() + "'");
}

/// The order matters: OpenSSL checks the private key against the certificate that is already loaded.
Result<Credentials> with_certificates(const CertificateFiles& files) {
  auto made = make_context();
  if (!made) return std::unexpected(made.error());
  SSL_CTX* const context = made->get();
  if (auto hidden = check_private(files.private_key); !hidden) return std::unexpected(hidden.error());
  // If the key has a passphrase, OpenSSL must not ask for it on a terminal.
  SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return 0; });
  if (SSL_CTX_load_verify_file(context, files.authority.c_str()) != 1)
    return unusable(files.authority, "no certificates of an authority");
  if (SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) != 1)
    return unusable(files.certificate, "no certificate");
  if (SSL_CTX_use_PrivateKey_file(context, files.private_key.c_str(), SSL_FILETYPE_PEM) != 1)
    return unusable(files.private_key, "no private key without a passphrase, or not the certificate's");
  return Credentials{std::move(*made), nullptr};
}

}  // namespace

std::string reason_text(unsigned long error) {
  const char* reason = ERR_reason_error_string(error);
  return reason != nullptr ? reason : "error " + std::to_string(error);
}

Credentials TlsContext::Shared::credentials() {
  const std::lock_guard lock(mutex_);
  (void)read_changes();
  return credentials_;
}

Result<void> TlsContext::Shared::look() {
  const std::lock_guard lock(mutex_);
  return read_changes();
}

Result<void> TlsContext::Shared::set(const ClusterKey& key) {
  auto made = with_keys({&key, 1});
  if (!made) return std::unexpected(made.error());
  credentials_ = std::move(*made);
  return {};
}

Result<void> TlsContext::Shared::follow(const std::filesystem::path& key_file) {
  files_ = {key_file};
  return read_changes();
}

Result<void> TlsContext::Shared::follow(const CertificateFiles& files) {
  files_ = {files.authority, files.certificate, files.private_key};
  return read_changes();
}

TlsContext::Shared::Stamps TlsContext::Shared::stamps() const {
  Stamps now;
  for (const auto& file : files_) now.push_back(stamp_of(file));
  return now;
}

Result<Credentials> TlsContext::Shared::load() const {
  if (files_.size() > 1) return with_certificates({files_[0], files_[1], files_[2]});
  const auto keys = ClusterKey::load(files_.front());
  if (!keys) return std::unexpected(keys.error());
  return with_keys(*keys);
}

/// Takes the stamps before it reads the files. If a file changes after its stamp was taken, the next call
/// finds a different stamp and reads the file again.
Result<void> TlsContext::Shared::read_changes() {
  auto now = stamps();
  if (credentials_.context && now == stamps_) return {};
  auto loaded = load();
  if (!loaded) return std::unexpected(loaded.error());
  credentials_ = std::move(*loaded);
  stamps_ = std::move(now);
  return {};
}

Result<void> TlsContext::look() const {
  return shared_->look();
}

Result<TlsContext> TlsContext::create(const ClusterKey& key) {
  auto shared = std::make_shared<Shared>();
  if (auto done = shared->set(key); !done) return std::unexpected(done.error());
  return TlsContext(std::move(shared));
}

Result<TlsContext> TlsContext::follow(const std::filesystem::path& key_file) {
  auto shared = std::make_shared<Shared>();
  if (auto done = shared->follow(key_file); !done) return std::unexpected(done.error());
  return TlsContext(std::move(shared));
}

Result<TlsContext> TlsContext::follow(const CertificateFiles& files) {
  auto shared = std::make_shared<Shared>();
  if (auto done = shared->follow(files); !done) return std::unexpected(done.error());
  return TlsContext(std::move(shared));
}

}  // namespace rdmc::control

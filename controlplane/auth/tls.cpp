#include "controlplane/auth/tls.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <string>

namespace rdmc::control {
namespace {

struct SslDeleter {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }
};
using Psk = Secret<ClusterKey::kBytes>;

std::string reason_text(unsigned long error) {
  const char* reason = ERR_reason_error_string(error);
  return reason != nullptr ? reason : "error " + std::to_string(error);
}

/// One key as TLS knows it.
struct NamedPsk {
  Psk psk;
  std::string identity;
};
using KeyRing = std::vector<NamedPsk>;  // the first begins connections

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

/// The PSK as OpenSSL wants it: a session that never was. Null when memory is short.
SSL_SESSION* make_psk_session(SSL* ssl, const Psk& psk) {
  static constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};
  std::unique_ptr<SSL_SESSION, SslDeleter> session(SSL_SESSION_new());
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
  if (found == ring.end()) return 1;  // goes on without a PSK, and fails for want of a certificate
  *session = make_psk_session(ssl, found->psk);
  return *session != nullptr;
}

/// Tells one content of a file from another.
struct Stamp {
  ino_t inode = 0;
  off_t bytes = 0;
  std::int64_t modified_ns = 0;
  bool operator==(const Stamp&) const = default;
};

std::optional<Stamp> stamp_of(const std::filesystem::path& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return Stamp{status.st_ino, status.st_size,
               status.st_mtim.tv_sec * std::int64_t{1'000'000'000} + status.st_mtim.tv_nsec};
}

/// What an alert of the peer means. A peer that does not accept our proof says so in one of several ways, by
/// implementation and by how far it came; all that concern the handshake's secrets mean the key.
bool alert_is_about_the_key(int alert) {
  switch (alert) {
    case SSL3_AD_BAD_RECORD_MAC:
    case SSL3_AD_HANDSHAKE_FAILURE:
    case SSL3_AD_BAD_CERTIFICATE:
    case SSL3_AD_CERTIFICATE_UNKNOWN:
    case SSL3_AD_ILLEGAL_PARAMETER:
    case TLS1_AD_UNKNOWN_CA:
    case TLS1_AD_ACCESS_DENIED:
    case TLS1_AD_DECRYPT_ERROR:
    case TLS1_AD_INSUFFICIENT_SECURITY:
    case TLS1_AD_UNKNOWN_PSK_IDENTITY:
    case TLS13_AD_CERTIFICATE_REQUIRED: return true;
    default: return false;
  }
}

bool reason_is_about_the_key(int reason) {
  switch (reason) {
    case SSL_R_BINDER_DOES_NOT_VERIFY:
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
    case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
    case SSL_R_DIGEST_CHECK_FAILED:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:  // a client without a PSK: it wants a certificate of us
    case SSL_R_NO_CERTIFICATES_RETURNED: return true;
    default: return false;
  }
}

std::unexpected<Error> handshake_failure() {
  const unsigned long error = ERR_peek_error();
  const int reason = ERR_GET_REASON(error);
  if (ERR_GET_LIB(error) == ERR_LIB_SSL && reason > SSL_AD_REASON_OFFSET) {
    const int alert = reason - SSL_AD_REASON_OFFSET;
    if (alert_is_about_the_key(alert))
      return fail(Errc::authentication,
                  "the other side does not accept our cluster key (" + reason_text(error) + ")");
    return fail(Errc::protocol_error, "the other side ended the TLS handshake: " + reason_text(error));
  }
  if (ERR_GET_LIB(error) == ERR_LIB_SSL && reason_is_about_the_key(reason))
    return fail(Errc::authentication, "the other side has not our cluster key (" + reason_text(error) + ")");
  return fail(Errc::protocol_error, "the TLS handshake failed: " + reason_text(error));
}

std::unexpected<Error> record_failure() {
  const unsigned long error = ERR_peek_error();
  const bool tampered =
      ERR_GET_LIB(error) == ERR_LIB_SSL && ERR_GET_REASON(error) == SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC;
  return fail(tampered ? Errc::corrupt : Errc::protocol_error, "TLS: " + reason_text(error));
}

}  // namespace

struct TlsContext::Shared {
  std::unique_ptr<SSL_CTX, SslDeleter> context;

  std::shared_ptr<const KeyRing> ring() {
    const std::lock_guard lock(mutex_);
    if (!file_.empty()) (void)look();
    return ring_;
  }
  Result<void> set(std::span<const ClusterKey> keys) {
    auto ring = make_ring(keys);
    if (!ring) return std::unexpected(ring.error());
    ring_ = std::make_shared<const KeyRing>(std::move(*ring));
    return {};
  }
  Result<void> follow(const std::filesystem::path& file) {
    file_ = file;
    return look();
  }

 private:
  /// What is read belongs to the stamp or to what came after it: then the next look reads once more.
  Result<void> look() {
    const auto stamp = stamp_of(file_);
    if (ring_ && (!stamp || stamp == stamp_)) return {};
    const auto keys = ClusterKey::load(file_);
    if (!keys) return std::unexpected(keys.error());
    if (auto done = set(*keys); !done) return done;
    stamp_ = stamp;
    return {};
  }

  std::mutex mutex_;
  std::filesystem::path file_;
  std::optional<Stamp> stamp_;
  std::shared_ptr<const KeyRing> ring_;
};

Result<TlsContext> TlsContext::create(const ClusterKey& key) {
  auto shared = make();
  if (!shared) return std::unexpected(shared.error());
  if (auto done = (*shared)->set({&key, 1}); !done) return std::unexpected(done.error());
  return TlsContext(std::move(*shared));
}

Result<TlsContext> TlsContext::follow(const std::filesystem::path& key_file) {
  auto shared = make();
  if (!shared) return std::unexpected(shared.error());
  if (auto done = (*shared)->follow(key_file); !done) return std::unexpected(done.error());
  return TlsContext(std::move(*shared));
}

Result<std::shared_ptr<TlsContext::Shared>> TlsContext::make() {
  ERR_clear_error();
  auto shared = std::make_shared<Shared>();
  shared->context.reset(SSL_CTX_new(TLS_method()));
  SSL_CTX* context = shared->context.get();
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") != 1 ||
      SSL_CTX_set1_groups_list(context, "X25519:P-256") != 1 || SSL_CTX_set_num_tickets(context, 0) != 1)
    return fail(Errc::unsupported,
                "OpenSSL cannot do TLS 1.3 as we need it: " + reason_text(ERR_peek_error()));
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);  // an idle session holds no record buffers (34 KB)
  SSL_CTX_set_psk_use_session_callback(context, offer_psk);
  SSL_CTX_set_psk_find_session_callback(context, find_psk);
  return shared;
}

struct TlsSession::State {
  std::shared_ptr<TlsContext::Shared> shared;
  std::shared_ptr<const KeyRing> ring;  // the PSKs must outlive the handshake
  std::unique_ptr<SSL, SslDeleter> ssl;
  BIO* incoming = nullptr;  // owned by ssl
  BIO* outgoing = nullptr;
};

TlsSession::TlsSession(std::unique_ptr<State> state) : state_(std::move(state)) {}
TlsSession::TlsSession(TlsSession&&) noexcept = default;
TlsSession& TlsSession::operator=(TlsSession&&) noexcept = default;
TlsSession::~TlsSession() = default;

Result<TlsSession> TlsSession::create(const TlsContext& context, Role role) {
  auto state = std::make_unique<State>();
  state->shared = context.shared_;
  state->ring = context.shared_->ring();
  state->ssl.reset(SSL_new(context.shared_->context.get()));
  state->incoming = BIO_new(BIO_s_mem());
  state->outgoing = BIO_new(BIO_s_mem());
  if (!state->ssl || state->incoming == nullptr || state->outgoing == nullptr) {
    BIO_free(state->incoming);
    BIO_free(state->outgoing);
    return fail(Errc::resource_limit, "no memory for a TLS session");
  }
  SSL* ssl = state->ssl.get();
  BIO_set_mem_eof_return(state->incoming, -1);                     // empty means "later", not the end
  SSL_set_app_data(ssl, const_cast<KeyRing*>(state->ring.get()));  // through a void*; it is only read
  SSL_set_bio(ssl, state->incoming, state->outgoing);
  if (role == Role::client) {
    SSL_set_connect_state(ssl);
    // No certificate authority is trusted: a server that wants to prove itself with a certificate fails here.
    SSL_set_verify(ssl, SSL_VERIFY_PEER, nullptr);
  } else {
    SSL_set_accept_state(ssl);
  }
  return TlsSession(std::move(state));
}

Result<void> TlsSession::receive(std::span<const std::byte> ciphertext) {
  assert(ciphertext.size() <= static_cast<std::size_t>(std::numeric_limits<int>::max()));
  if (ciphertext.empty()) return {};
  const int size = static_cast<int>(ciphertext.size());
  if (BIO_write(state_->incoming, ciphertext.data(), size) != size)
    return fail(Errc::resource_limit, "no memory for a TLS record");
  return {};
}

Result<bool> TlsSession::handshake() {
  if (established_) return true;
  ERR_clear_error();
  SSL* ssl = state_->ssl.get();
  const int done = SSL_do_handshake(ssl);
  if (done == 1) {
    // A finished handshake without our PSK cannot be; it is the property everything rests on, so it is looked
    // at.
    if (SSL_session_reused(ssl) != 1)
      return fail(Errc::authentication, "the other side did not use the cluster key");
    established_ = true;
    return true;
  }
  const int error = SSL_get_error(ssl, done);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return false;
  return handshake_failure();
}

Result<std::size_t> TlsSession::read(std::span<std::byte> plaintext) {
  ERR_clear_error();
  std::size_t got = 0;
  SSL* ssl = state_->ssl.get();
  const int done = SSL_read_ex(ssl, plaintext.data(), plaintext.size(), &got);
  if (done == 1) return got;
  const int error = SSL_get_error(ssl, done);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_ZERO_RETURN)
    return std::size_t{0};
  return record_failure();
}

Result<void> TlsSession::write(std::span<const std::byte> plaintext) {
  assert(established_ && !plaintext.empty());
  ERR_clear_error();
  std::size_t written = 0;
  if (SSL_write_ex(state_->ssl.get(), plaintext.data(), plaintext.size(), &written) != 1)
    return record_failure();
  assert(written == plaintext.size());  // a memory BIO always has room, and partial writes are off
  return {};
}

void TlsSession::close() {
  ERR_clear_error();
  if (established_) SSL_shutdown(state_->ssl.get());
  ERR_clear_error();
}

void TlsSession::take_output(std::vector<std::byte>& to) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(state_->outgoing, &data);
  if (size <= 0) return;
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  to.insert(to.end(), bytes, bytes + size);
  (void)BIO_reset(state_->outgoing);
}

}  // namespace rdmc::control

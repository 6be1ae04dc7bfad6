#include "controlplane/auth/tls.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <cassert>
#include <cstring>
#include <limits>
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

/// The PSK as OpenSSL wants it: a session that never was. Null when memory is short.
SSL_SESSION* make_psk_session(SSL* ssl) {
  static constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};
  const auto* psk = static_cast<const Psk*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  std::unique_ptr<SSL_SESSION, SslDeleter> session(SSL_SESSION_new());
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kAes128GcmSha256);
  if (!session || cipher == nullptr) return nullptr;
  const auto* bytes = reinterpret_cast<const unsigned char*>(psk->bytes().data());
  if (SSL_SESSION_set1_master_key(session.get(), bytes, ClusterKey::kBytes) != 1 ||
      SSL_SESSION_set_cipher(session.get(), cipher) != 1 ||
      SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) != 1)
    return nullptr;
  return session.release();
}

int offer_psk(SSL* ssl, const EVP_MD*, const unsigned char** identity, std::size_t* identity_length,
              SSL_SESSION** session) {
  *session = make_psk_session(ssl);
  *identity = reinterpret_cast<const unsigned char*>(kTlsIdentity.data());
  *identity_length = kTlsIdentity.size();
  return *session != nullptr;
}

int find_psk(SSL* ssl, const unsigned char* identity, std::size_t identity_length, SSL_SESSION** session) {
  const std::string_view name(reinterpret_cast<const char*>(identity), identity_length);
  *session = nullptr;
  if (name != kTlsIdentity) return 1;  // goes on without a PSK, and fails for want of a certificate
  *session = make_psk_session(ssl);
  return *session != nullptr;
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
  Psk psk;
  std::unique_ptr<SSL_CTX, SslDeleter> context;
};

Result<TlsContext> TlsContext::create(const ClusterKey& key) {
  ERR_clear_error();
  auto shared = std::make_shared<Shared>();
  auto psk = key.derive(kTlsLabel);
  if (!psk) return std::unexpected(psk.error());
  shared->psk = std::move(*psk);
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
  SSL_CTX_set_app_data(context, &shared->psk);
  SSL_CTX_set_psk_use_session_callback(context, offer_psk);
  SSL_CTX_set_psk_find_session_callback(context, find_psk);
  return TlsContext(std::move(shared));
}

struct TlsSession::State {
  std::shared_ptr<const TlsContext::Shared> shared;  // the PSK must outlive the handshake
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
  state->ssl.reset(SSL_new(context.shared_->context.get()));
  state->incoming = BIO_new(BIO_s_mem());
  state->outgoing = BIO_new(BIO_s_mem());
  if (!state->ssl || state->incoming == nullptr || state->outgoing == nullptr) {
    BIO_free(state->incoming);
    BIO_free(state->outgoing);
    return fail(Errc::resource_limit, "no memory for a TLS session");
  }
  SSL* ssl = state->ssl.get();
  BIO_set_mem_eof_return(state->incoming, -1);  // empty means "later", not the end
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

#include "controlplane/auth/tls.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <cassert>
#include <limits>
#include <new>
#include <string>

#include "controlplane/auth/tls_context.hpp"

namespace rdmc::control {
namespace {

struct SslDeleter {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};

/// True if the peer's alert means that the peer does not accept this side's proof. The peer's choice of the
/// alert depends on its implementation and on the progress of the handshake. Therefore all alerts about the
/// secrets of the handshake are included.
bool alert_is_about_the_proof(int alert) {
  switch (alert) {
    case SSL3_AD_BAD_RECORD_MAC:
    case SSL3_AD_HANDSHAKE_FAILURE:
    case SSL3_AD_BAD_CERTIFICATE:
    case SSL3_AD_CERTIFICATE_EXPIRED:
    case SSL3_AD_CERTIFICATE_REVOKED:
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

bool reason_is_about_the_proof(int reason) {
  switch (reason) {
    case SSL_R_BINDER_DOES_NOT_VERIFY:
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
    case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
    case SSL_R_DIGEST_CHECK_FAILED:
    // OpenSSL reports this if the client offers no PSK. This side would then need a certificate, and it has
    // none.
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_NO_CERTIFICATES_RETURNED:
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE: return true;
    default: return false;
  }
}

std::unexpected<Error> handshake_failure(const SSL* ssl, bool certificates) {
  const std::string ours = certificates ? "certificate" : "cluster key";
  const unsigned long error = ERR_peek_error();
  const int reason = ERR_GET_REASON(error);
  if (ERR_GET_LIB(error) == ERR_LIB_SSL && reason > SSL_AD_REASON_OFFSET) {
    const int alert = reason - SSL_AD_REASON_OFFSET;
    if (alert_is_about_the_proof(alert))
      return fail(Errc::authentication,
                  "the other side does not accept our " + ours + " (" + reason_text(error) + ")");
    return fail(Errc::protocol_error, "the other side ended the TLS handshake: " + reason_text(error));
  }
  const long verified = SSL_get_verify_result(ssl);
  if (certificates && verified != X509_V_OK)
    return fail(Errc::authentication, std::string("the other side's certificate is refused: ") +
                                          X509_verify_cert_error_string(verified));
  if (certificates && ERR_GET_LIB(error) == ERR_LIB_SSL && reason_is_about_the_proof(reason))
    return fail(Errc::authentication, "the other side shows no certificate (" + reason_text(error) + ")");
  if (ERR_GET_LIB(error) == ERR_LIB_SSL && reason_is_about_the_proof(reason))
    return fail(Errc::authentication, "the other side has not our cluster key (" + reason_text(error) + ")");
  return fail(Errc::protocol_error, "the TLS handshake failed: " + reason_text(error));
}

std::unexpected<Error> record_failure(bool certificates) {
  const unsigned long error = ERR_peek_error();
  const int reason = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
  // A client finishes its part of the handshake before the server has checked the client's certificate.
  if (reason > SSL_AD_REASON_OFFSET && alert_is_about_the_proof(reason - SSL_AD_REASON_OFFSET) &&
      reason != SSL_R_SSLV3_ALERT_BAD_RECORD_MAC)
    return fail(Errc::authentication, std::string("the other side does not accept our ") +
                                          (certificates ? "certificate (" : "cluster key (") +
                                          reason_text(error) + ")");
  const bool tampered = reason == SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC;
  return fail(tampered ? Errc::corrupt : Errc::protocol_error, "TLS: " + reason_text(error));
}

}  // namespace

struct TlsSession::State {
  Credentials credentials;  // The PSKs must outlive the handshake.
  std::unique_ptr<SSL, SslDeleter> ssl;
  BIO* incoming = nullptr;  // Both BIOs are owned by ssl.
  BIO* outgoing = nullptr;
};

TlsSession::TlsSession(std::unique_ptr<State> state) : state_(std::move(state)) {}
TlsSession::TlsSession(TlsSession&&) noexcept = default;
TlsSession& TlsSession::operator=(TlsSession&&) noexcept = default;
TlsSession::~TlsSession() = default;

Result<TlsSession> TlsSession::create(const TlsContext& context, Role role) {
  auto state = std::make_unique<State>();
  state->credentials = context.shared_->credentials();
  state->ssl.reset(SSL_new(state->credentials.context.get()));
  state->incoming = BIO_new(BIO_s_mem());
  state->outgoing = BIO_new(BIO_s_mem());
  if (!state->ssl || state->incoming == nullptr || state->outgoing == nullptr) {
    BIO_free(state->incoming);
    BIO_free(state->outgoing);
    return fail(Errc::resource_limit, "no memory for a TLS session");
  }
  SSL* ssl = state->ssl.get();
  const KeyRing* const ring = state->credentials.ring.get();
  BIO_set_mem_eof_return(state->incoming, -1);  // An empty BIO means "try later", not the end.
  // The void* parameter needs the cast. The ring is only read.
  SSL_set_app_data(ssl, const_cast<KeyRing*>(ring));
  SSL_set_bio(ssl, state->incoming, state->outgoing);
  if (role == Role::client) {
    SSL_set_connect_state(ssl);
    // With cluster keys, no authority is trusted. A server that tries to prove itself with a certificate
    // fails here.
    SSL_set_verify(ssl, SSL_VERIFY_PEER, nullptr);
  } else {
    SSL_set_accept_state(ssl);
    if (ring == nullptr) SSL_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
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
    // A handshake should never finish without a proof. All security rests on this property, so the code
    // checks it.
    const bool proved = state_->credentials.ring ? SSL_session_reused(ssl) == 1
                                                 : SSL_get0_peer_certificate(ssl) != nullptr &&
                                                       SSL_get_verify_result(ssl) == X509_V_OK;
    if (!proved) return fail(Errc::authentication, "the other side did not prove that it belongs to us");
    established_ = true;
    return true;
  }
  const int error = SSL_get_error(ssl, done);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return false;
  return handshake_failure(ssl, !state_->credentials.ring);
}

std::array<std::byte, 16> TlsSession::exported() const {
  assert(established_);
  constexpr std::string_view kLabel = "EXPORTER-rdmc-connection";
  std::array<std::byte, 16> value;
  if (SSL_export_keying_material(state_->ssl.get(), reinterpret_cast<unsigned char*>(value.data()),
                                 value.size(), kLabel.data(), kLabel.size(), nullptr, 0, 0) != 1)
    throw std::bad_alloc();  // Lack of memory is the only possible failure.
  return value;
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
  return record_failure(!state_->credentials.ring);
}

Result<void> TlsSession::write(std::span<const std::byte> plaintext) {
  assert(established_ && !plaintext.empty());
  ERR_clear_error();
  std::size_t written = 0;
  if (SSL_write_ex(state_->ssl.get(), plaintext.data(), plaintext.size(), &written) != 1)
    return record_failure(!state_->credentials.ring);
  assert(written == plaintext.size());  // A memory BIO takes all bytes, and partial writes are off.
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

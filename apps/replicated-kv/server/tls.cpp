#include "apps/replicated-kv/server/tls.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace rdmc::kv {

namespace {

std::string reason_of_openssl() {
  const unsigned long error = ERR_peek_error();
  if (ERR_SYSTEM_ERROR(error)) return std::strerror(ERR_GET_REASON(error));
  const char* const reason = ERR_reason_error_string(error);
  return reason != nullptr ? reason : "error " + std::to_string(error);
}

std::unexpected<Error> unusable(const std::string& file, std::string_view what) {
  return fail(Errc::invalid_argument, file + ": " + std::string(what) + " (" + reason_of_openssl() + ")");
}

}  // namespace

void TlsStream::Deleter::operator()(ssl_st* ssl) const {
  SSL_free(ssl);
}

void TlsContext::Deleter::operator()(ssl_ctx_st* context) const {
  SSL_CTX_free(context);
}

Result<void> TlsContext::use_certificate(const std::string& certificate, const std::string& private_key) {
  struct stat status {};
  if (::stat(private_key.c_str(), &status) != 0) return fail_errno(private_key, errno);
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return fail(Errc::permission_denied,
                private_key + ": only its owner may have access to the private key (mode 0600)");
  SSL_CTX* const context = context_.get();
  // If the key has a passphrase, OpenSSL must not ask for it on a terminal.
  SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return 0; });
  if (SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1)
    return unusable(certificate, "no certificate");
  if (SSL_CTX_use_PrivateKey_file(context, private_key.c_str(), SSL_FILETYPE_PEM) != 1)
    return unusable(private_key, "no private key without a passphrase, or not the one of the certificate");
  return {};
}

Result<TlsContext> TlsContext::open(const TlsOptions& options) {
  ERR_clear_error();
  TlsContext made;
  made.context_.reset(SSL_CTX_new(TLS_server_method()));
  SSL_CTX* const context = made.context_.get();
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1)
    return fail(Errc::unsupported, "OpenSSL cannot do TLS 1.2: " + reason_of_openssl());
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET |
                                   SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  // The output of a client moves in memory while it grows. An idle connection keeps no buffers (34 KB).
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  if (auto used = made.use_certificate(options.certificate, options.private_key); !used)
    return std::unexpected(used.error());
  if (options.clients == TlsOptions::Clients::need_none) return made;
  if (SSL_CTX_load_verify_file(context, options.authority.c_str()) != 1)
    return unusable(options.authority, "no certificates of an authority");
  const bool is_needed = options.clients == TlsOptions::Clients::need_certificate;
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | (is_needed ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), nullptr);
  return made;
}

Result<TlsContext> TlsContext::open_client(const TlsClientOptions& options) {
  ERR_clear_error();
  TlsContext made;
  made.context_.reset(SSL_CTX_new(TLS_client_method()));
  SSL_CTX* const context = made.context_.get();
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1)
    return fail(Errc::unsupported, "OpenSSL cannot do TLS 1.2: " + reason_of_openssl());
  if (SSL_CTX_load_verify_file(context, options.authority.c_str()) != 1)
    return unusable(options.authority, "no certificates of an authority");
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (options.certificate.empty()) return made;
  if (auto used = made.use_certificate(options.certificate, options.private_key); !used)
    return std::unexpected(used.error());
  return made;
}

Result<TlsStream> TlsContext::begin(int socket) const {
  ERR_clear_error();
  TlsStream stream;
  stream.ssl_.reset(SSL_new(context_.get()));
  if (!stream.ssl_ || SSL_set_fd(stream.ssl_.get(), socket) != 1)
    return fail(Errc::resource_limit, "TLS: " + reason_of_openssl());
  return stream;
}

Result<TlsStream> TlsContext::accept(int socket) const {
  auto stream = begin(socket);
  if (stream) SSL_set_accept_state(stream->ssl_.get());
  return stream;
}

Result<TlsStream> TlsContext::connect(int socket) const {
  auto stream = begin(socket);
  if (stream) SSL_set_connect_state(stream->ssl_.get());
  return stream;
}

TlsProgress TlsStream::progress(int result) {
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_NONE: return TlsProgress::done;
    case SSL_ERROR_WANT_READ: return TlsProgress::needs_read;
    case SSL_ERROR_WANT_WRITE: return TlsProgress::needs_write;
    case SSL_ERROR_ZERO_RETURN: return TlsProgress::ended;
    default: has_failed_ = true; return TlsProgress::failed;
  }
}

TlsProgress TlsStream::handshake() {
  ERR_clear_error();
  const TlsProgress result = progress(SSL_do_handshake(ssl_.get()));
  is_established_ = result == TlsProgress::done;
  return result;
}

TlsProgress TlsStream::read(std::span<char> into, std::size_t& got) {
  ERR_clear_error();
  got = 0;
  return progress(SSL_read_ex(ssl_.get(), into.data(), into.size(), &got));
}

TlsProgress TlsStream::write(std::span<const char> bytes, std::size_t& written) {
  ERR_clear_error();
  written = 0;
  return progress(SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &written));
}

void TlsStream::close() {
  // OpenSSL forbids this after a failure, and during a handshake.
  if (!ssl_ || !is_established_ || has_failed_) return;
  ERR_clear_error();
  SSL_shutdown(ssl_.get());
}

}  // namespace rdmc::kv

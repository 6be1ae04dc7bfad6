// TLS for the connections of clients. The members' TLS (controlplane/auth/tls.hpp) is for ends that are both
// ours. This one is for any client of Redis, so it takes TLS 1.2 as well, and a client needs a certificate
// only if the options say so. OpenSSL reads from the socket into the parser of the client, and writes from
// its output, without a further buffer. One thread uses these objects.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "dataplane/base/error.hpp"

struct ssl_ctx_st;
struct ssl_st;

namespace rdmc::kv {

/// The options with the names of Redis.
struct TlsOptions {
  enum class Clients { need_certificate, may_have_certificate, need_none };

  std::string certificate, private_key;  ///< PEM files
  std::string authority;                 ///< PEM file with the authorities of the clients' certificates
  Clients clients = Clients::need_certificate;
};

enum class TlsProgress {
  done,         ///< something was read or written; for a handshake, it is complete
  needs_read,   ///< it goes on when the socket can be read
  needs_write,  ///< it goes on when the socket can be written
  ended,        ///< the client has said that it sends nothing more
  failed        ///< the connection must be closed
};

/// One connection, at either end.
class TlsStream {
 public:
  TlsStream() = default;
  bool is_used() const { return ssl_ != nullptr; }
  bool is_established() const { return is_established_; }

  /// Goes on with the handshake.
  TlsProgress handshake();
  /// Reads at most one record. `into` must have space for one, which is kMostRecordBytes.
  TlsProgress read(std::span<char> into, std::size_t& got);
  /// Writes from the beginning of `bytes`. After needs_read or needs_write, the next call must have the same
  /// bytes, and may have more.
  TlsProgress write(std::span<const char> bytes, std::size_t& written);
  /// Says to the client that nothing more follows, if the socket takes it at once.
  void close();

  static constexpr std::size_t kMostRecordBytes = 16 << 10;

 private:
  friend class TlsContext;
  struct Deleter {
    void operator()(ssl_st* ssl) const;
  };
  TlsProgress progress(int result);

  std::unique_ptr<ssl_st, Deleter> ssl_;
  bool is_established_ = false, has_failed_ = false;
};

/// The options of a client of servers.
struct TlsClientOptions {
  std::string authority;                 ///< PEM file with the authorities of the servers' certificates
  std::string certificate, private_key;  ///< PEM files of the client; empty if it has none
};

/// The certificate of one end, and what it needs of the other end.
class TlsContext {
 public:
  /// Errors: invalid_argument if a file cannot be used; permission_denied if others can read the private key.
  static Result<TlsContext> open(const TlsOptions& options);
  /// For a client. The certificates of servers are checked, but not the names in them, as in redis-cli.
  /// Errors: those of open().
  static Result<TlsContext> open_client(const TlsClientOptions& options);
  /// Begins a connection on a socket, which must exist longer. Errors: resource_limit.
  Result<TlsStream> accept(int socket) const;
  Result<TlsStream> connect(int socket) const;

 private:
  Result<TlsStream> begin(int socket) const;
  Result<void> use_certificate(const std::string& certificate, const std::string& private_key);
  struct Deleter {
    void operator()(ssl_ctx_st* context) const;
  };
  std::unique_ptr<ssl_ctx_st, Deleter> context_;
};

}  // namespace rdmc::kv

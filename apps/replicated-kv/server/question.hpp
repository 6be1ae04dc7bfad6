// A connection to another server, for questions as a client asks them. All functions wait, and each step for
// at most 3 s. One thread uses it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "apps/replicated-kv/server/tls.hpp"
#include "dataplane/base/address.hpp"
#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::kv {

/// How a client proves who it is. Without a password, it does not.
struct Credentials {
  std::string user, password;
};

class Question {
 public:
  /// Connects, and logs in. Without `tls`, the connection has no encryption. Errors: peer_failed if the
  /// server cannot be reached, or closes the connection; timed_out if it does not answer; authentication if
  /// there is no TLS with it; permission_denied if the server refuses the credentials; would_block if it
  /// cannot check them at present (LOADING, CLUSTERDOWN).
  /// All functions end with the error cancelled when the descriptor `stop` becomes readable, unless it is -1.
  static Result<Question> open(const Address& server, const Credentials& credentials,
                               const TlsContext* tls = nullptr, int stop = -1);
  /// Sends the words of a request. Returns the bulk string or the number of the reply, or the last bulk
  /// string of an array of them. An empty array gives an empty text. Errors: timed_out or peer_failed if
  /// there is no reply; would_block if the server cannot execute the request at present; protocol_error if
  /// the reply is something else, with its text.
  Result<std::string> ask(const std::vector<std::string>& request);

 private:
  Question(Descriptor socket, int stop) : socket_(std::move(socket)), stop_(stop) {}
  Result<void> begin_tls(const TlsContext& tls);
  Result<void> wait(short events);
  Result<void> wait(TlsProgress progress);
  Result<void> send(const std::string& bytes);
  Result<void> receive();
  Result<std::string> line();
  Result<std::string> bulk(std::size_t size);

  Descriptor socket_;
  int stop_;
  TlsStream tls_;  // after `socket_`, which it uses until its end
  std::string received_;
};

/// Asks one question, without credentials and TLS. It ends when the descriptor `stop` becomes readable.
Result<std::string> ask(const Address& server, const std::vector<std::string>& request, int stop);

}  // namespace rdmc::kv

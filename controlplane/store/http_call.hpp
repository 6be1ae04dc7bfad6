// One HTTP request on a connection of its own. Requests are rare, so no connection is kept open. Therefore no
// connection must be repaired after a server was restarted. This header includes Boost.Beast, so only files
// of this folder may include it. It must be used on the loop's thread.
#pragma once

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <functional>
#include <memory>
#include <string>

#include "controlplane/connect/loop_core.hpp"
#include "dataplane/base/address.hpp"

namespace rdmc::store {

class HttpCall final : public control::LoopMember, public std::enable_shared_from_this<HttpCall> {
 public:
  /// Gets the whole body. Errors: peer_failed, timed_out, protocol_error, or io_error with the server's
  /// message if the HTTP status is not 200.
  using Done = std::move_only_function<void(Result<std::string>)>;
  /// Gets a part of the body as soon as the part has arrived.
  using Piece = std::move_only_function<void(const std::string&)>;

  HttpCall(std::shared_ptr<control::LoopCore> core, const Address& server);

  /// Sends `body` as JSON in a POST request. `done` is called once, after this function has returned. It is
  /// not called if cancel() is called first. Without `piece`, `silence` is the time limit for the whole call.
  /// With `piece`, `silence` is the time limit for each part of the body, and `done` is called with an error
  /// when the body ends.
  void post(const std::string& target, std::string body, Duration silence, Done done, Piece piece = nullptr);
  void cancel();
  void on_loop_stop() override;

 private:
  using Stream = boost::beast::tcp_stream;

  void write();
  void read();
  void read_piece();
  void arm() { stream_.expires_after(std::chrono::nanoseconds(silence_.ns)); }
  void finish(Result<std::string> result);
  void finish_with(const boost::system::error_code& error);

  const std::shared_ptr<control::LoopCore> core_;
  const Address server_;
  Stream stream_;
  Duration silence_{};
  boost::beast::flat_buffer buffer_;
  boost::beast::http::request<boost::beast::http::string_body> request_;
  boost::beast::http::response_parser<boost::beast::http::string_body> response_;
  Done done_;
  Piece piece_;
};

}  // namespace rdmc::store

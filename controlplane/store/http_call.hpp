// One HTTP request on a connection of its own: asked rarely enough that nothing is kept open, so that there
// is nothing to repair when a server has been restarted. It brings in Boost.Beast; for the files of this
// folder alone. The loop's thread.
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
  /// The whole body. Errors: peer_failed, timed_out, protocol_error; io_error when the status is not 200,
  /// with what the server says.
  using Done = std::move_only_function<void(Result<std::string>)>;
  /// A piece of the body, as it comes.
  using Piece = std::move_only_function<void(const std::string&)>;

  HttpCall(std::shared_ptr<control::LoopCore> core, const Address& server);

  /// POSTs `body` as JSON. `done` is called once, later, unless cancel() comes first. `silence` bounds the
  /// whole call; with `piece`, each wait for one, and done() comes with its end, which is an error.
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

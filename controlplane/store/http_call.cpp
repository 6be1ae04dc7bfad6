#include "controlplane/store/http_call.hpp"

#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <cstring>

#include "controlplane/store/etcd_codec.hpp"

namespace rdmc::store {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr std::uint64_t kMaxBodyBytes = 16 << 20;

asio::ip::tcp::endpoint to_endpoint(const Address& address) {
  if (!address.ipv6) {
    asio::ip::address_v4::bytes_type bytes;
    std::memcpy(bytes.data(), address.bytes.data(), bytes.size());
    return {asio::ip::address_v4(bytes), address.port};
  }
  asio::ip::address_v6::bytes_type bytes;
  std::memcpy(bytes.data(), address.bytes.data(), bytes.size());
  return {asio::ip::address_v6(bytes), address.port};
}

}  // namespace

HttpCall::HttpCall(std::shared_ptr<control::LoopCore> core, const Address& server)
    : core_(std::move(core)), server_(server), stream_(core_->context()) {
  response_.body_limit(kMaxBodyBytes);
}

void HttpCall::post(const std::string& target, std::string body, Duration silence, Done done, Piece piece) {
  done_ = std::move(done);
  piece_ = std::move(piece);
  silence_ = silence;
  // A stream may have any total length. Each part is discarded after it has been handled.
  if (piece_) response_.body_limit(boost::none);
  request_ = {http::verb::post, target, 11, std::move(body)};
  request_.set(http::field::host, to_string(server_));
  request_.set(http::field::content_type, "application/json");
  request_.keep_alive(false);
  request_.prepare_payload();
  core_->add(shared_from_this());
  arm();
  stream_.async_connect(to_endpoint(server_), [self = shared_from_this()](error_code error) {
    error ? self->finish_with(error) : self->write();
  });
}

void HttpCall::write() {
  http::async_write(stream_, request_, [self = shared_from_this()](error_code error, std::size_t) {
    if (error) return self->finish_with(error);
    self->piece_ ? self->read_piece() : self->read();
  });
}

void HttpCall::read() {
  http::async_read(stream_, buffer_, response_, [self = shared_from_this()](error_code error, std::size_t) {
    if (error) return self->finish_with(error);
    auto& message = self->response_.get();
    if (message.result() == http::status::ok) return self->finish(std::move(message.body()));
    self->finish(fail(Errc::io_error, to_string(self->server_) + ": " + error_text(message.body())));
  });
}

void HttpCall::read_piece() {
  arm();
  http::async_read_some(stream_, buffer_, response_,
                        [self = shared_from_this()](error_code error, std::size_t) {
                          if (error) return self->finish_with(error);
                          const std::string piece = std::exchange(self->response_.get().body(), {});
                          if (!piece.empty() && self->piece_) self->piece_(piece);
                          if (self->response_.is_done()) return self->finish_with(http::error::end_of_stream);
                          if (self->done_) self->read_piece();
                        });
}

void HttpCall::finish_with(const error_code& error) {
  const Errc code = error == beast::error::timeout ? Errc::timed_out
                    : error.category() == http::make_error_code(http::error{}).category()
                        ? Errc::protocol_error
                        : Errc::peer_failed;
  finish(fail(error == http::error::end_of_stream ? Errc::peer_failed : code,
              to_string(server_) + ": " + error.message()));
}

void HttpCall::finish(Result<std::string> result) {
  core_->remove(this);
  stream_.close();
  piece_ = nullptr;
  if (auto done = std::exchange(done_, nullptr)) done(std::move(result));
}

void HttpCall::cancel() {
  done_ = nullptr;
  finish({});
}

void HttpCall::on_loop_stop() {
  cancel();
}

}  // namespace rdmc::store

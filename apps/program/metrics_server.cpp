#include "apps/program/metrics_server.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <vector>

#include "controlplane/connect/loop_core.hpp"
#include "controlplane/connect/socket.hpp"

namespace rdmc {

namespace http = boost::beast::http;
using boost::asio::ip::tcp;
using boost::system::error_code;
using control::LoopCore;

class MetricsServer::Impl final : public control::LoopMember,
                                  public std::enable_shared_from_this<MetricsServer::Impl> {
 public:
  Impl(std::shared_ptr<LoopCore> core, std::function<std::string()> text)
      : core_(std::move(core)), acceptor_(core_->context()), text_(std::move(text)) {}

  void begin(Descriptor listening, bool ipv6) {
    core_->add(shared_from_this());
    error_code error;
    acceptor_.assign(ipv6 ? tcp::v6() : tcp::v4(), listening.get(), error);
    if (error) return;
    static_cast<void>(listening.release());
    accept();
  }
  void end() {
    core_->remove(this);
    text_ = nullptr;
    error_code ignored;
    acceptor_.close(ignored);
    for (const auto& scrape : std::exchange(scrapes_, {})) scrape->stream.close();
  }
  void on_loop_stop() override { end(); }

 private:
  struct Scrape {
    explicit Scrape(tcp::socket socket) : stream(std::move(socket)) {
      request.header_limit(kMostRequestBytes);
    }
    boost::beast::tcp_stream stream;
    boost::beast::flat_buffer buffer{kMostRequestBytes};
    http::request_parser<http::empty_body> request;
    http::response<http::string_body> response;
  };

  void accept() {
    acceptor_.async_accept([self = shared_from_this()](error_code error, tcp::socket socket) {
      if (!self->text_ || error == boost::asio::error::operation_aborted) return;
      // If there are too many connections, the oldest one is closed.
      if (!error && self->scrapes_.size() == kMostConnections) self->close(self->scrapes_.front());
      if (!error) self->serve(std::move(socket));
      // Without free descriptors an immediate retry would fail again.
      if (error) return self->accept_later();
      self->accept();
    });
  }
  void accept_later() {
    pause_.expires_after(std::chrono::seconds(1));
    pause_.async_wait([self = shared_from_this()](error_code) {
      if (self->text_) self->accept();
    });
  }

  void serve(tcp::socket socket) {
    const auto scrape = std::make_shared<Scrape>(std::move(socket));
    scrapes_.push_back(scrape);
    scrape->stream.expires_after(std::chrono::seconds(kSeconds));
    http::async_read(scrape->stream, scrape->buffer, scrape->request,
                     [self = shared_from_this(), scrape](error_code error, std::size_t) {
                       if (error || !self->text_) return self->close(scrape);
                       self->answer(scrape);
                     });
  }

  void answer(const std::shared_ptr<Scrape>& scrape) {
    const auto& request = scrape->request.get();
    auto& response = scrape->response;
    response.version(11);
    response.keep_alive(false);
    if (request.target() != "/metrics") {
      response.result(http::status::not_found);
    } else if (request.method() != http::verb::get) {
      response.result(http::status::method_not_allowed);
      response.set(http::field::allow, "GET");
    } else {
      response.set(http::field::content_type, "text/plain; version=0.0.4; charset=utf-8");
      response.body() = text_();
    }
    response.prepare_payload();
    http::async_write(scrape->stream, response,
                      [self = shared_from_this(), scrape](error_code, std::size_t) { self->close(scrape); });
  }

  void close(std::shared_ptr<Scrape> scrape) {
    error_code ignored;
    scrape->stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
    scrape->stream.close();
    std::erase(scrapes_, scrape);
  }

  const std::shared_ptr<LoopCore> core_;
  tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_{core_->context()};
  std::function<std::string()> text_;
  std::vector<std::shared_ptr<Scrape>> scrapes_;  ///< The oldest connection is the first element.
};

Result<std::unique_ptr<MetricsServer>> MetricsServer::listen(control::ControlLoop& loop,
                                                             const Address& address,
                                                             std::function<std::string()> text) {
  auto listening = control::listen_on(address);
  if (!listening) return std::unexpected(listening.error());
  const Address got = control::local_address(listening->get());
  const auto impl = std::make_shared<Impl>(loop.core(), std::move(text));
  loop.call([&] { impl->begin(std::move(*listening), got.ipv6); });
  return std::unique_ptr<MetricsServer>(new MetricsServer(impl, loop, got));
}

Result<Address> MetricsServer::address_of(const std::string& where) {
  const bool port_alone = where.find_first_not_of("0123456789") == std::string::npos;
  return parse_address((port_alone ? "127.0.0.1:" : "") + where, kPort);
}

Result<std::unique_ptr<MetricsServer>> MetricsServer::open(control::ControlLoop& loop,
                                                           const std::string& where,
                                                           std::function<std::string()> text) {
  if (where.empty()) return nullptr;
  const auto address = address_of(where);
  if (!address) return std::unexpected(address.error());
  return listen(loop, *address, std::move(text));
}

MetricsServer::~MetricsServer() {
  loop_.call([this] { impl_->end(); });
}

}  // namespace rdmc

#include "controlplane/connect/connector.hpp"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <cassert>
#include <chrono>
#include <optional>

#include "controlplane/connect/connection.hpp"
#include "controlplane/connect/resolver.hpp"

namespace rdmc::control {

using boost::system::error_code;
using Clock = std::chrono::steady_clock;

class Connecting::Attempt final : public LoopMember, public std::enable_shared_from_this<Attempt> {
 public:
  Attempt(std::shared_ptr<LoopCore> loop, std::string host, std::uint16_t port, const ChannelOptions& options,
          Duration deadline, ConnectHandler done)
      : core(std::move(loop)),
        host_(std::move(host)),
        port_(port),
        options_(options),
        deadline_(Clock::now() + std::chrono::nanoseconds(deadline.ns)),
        allowed_ms_(deadline.ns / 1'000'000),
        done_(std::move(done)),
        socket_(*core),
        timer_(core->context()) {}

  void begin() {
    if (!done_) return;  // The attempt was cancelled before it began.
    if (core->stopping()) return on_loop_stop();
    core->add(shared_from_this());
    if (auto numeric =
            parse_address(host_.find(':') == std::string::npos ? host_ : "[" + host_ + "]", port_)) {
      addresses_ = {*numeric};
      return try_next();
    }
    arm_timer(deadline_);
    core->resolver().resolve(host_, port_, [self = shared_from_this()](Result<std::vector<Address>> found) {
      if (!self->done_) return;
      if (!found) return self->finish(fail(found.error().code, self->name() + ": " + found.error().what));
      self->addresses_ = std::move(*found);
      self->try_next();
    });
  }

  void cancel() {
    done_ = nullptr;
    stop();
  }

  void on_loop_stop() override { finish(fail(Errc::cancelled, name() + ": the control loop stopped")); }

  const std::shared_ptr<LoopCore> core;

 private:
  std::string name() const {
    return host_.find(':') == std::string::npos ? host_ + ":" + std::to_string(port_)
                                                : "[" + host_ + "]:" + std::to_string(port_);
  }

  void arm_timer(Clock::time_point when) {
    timer_.expires_at(when);
    timer_.async_wait([self = shared_from_this(), turn = turn_](error_code error) {
      if (!error && self->done_ && self->turn_ == turn) self->on_timer();
    });
  }

  void on_timer() {
    const Error error{Errc::timed_out, "no answer within " + std::to_string(allowed_ms_) + " ms"};
    if (addresses_.empty())
      return finish(fail(Errc::timed_out, name() + ": resolving the name took too long"));
    failed(error);
  }

  void try_next() {
    ++turn_;  // Makes all waits for the previous address end without effect.
    socket_.close();
    if (next_ == addresses_.size()) return finish(std::unexpected(std::move(*error_)));
    const Address& address = addresses_[next_];
    const auto left = deadline_ - Clock::now();
    const auto share = left / static_cast<int>(addresses_.size() - next_);
    ++next_;
    arm_timer(Clock::now() + share);
    auto socket = begin_connect(address);
    if (!socket) return failed(socket.error());
    if (const auto error = socket_.take(*socket))
      return failed({Errc::resource_limit, "the socket cannot be watched: " + error.message()});
    socket_.async_wait(LoopSocket::Wait::wait_write,
                       [self = shared_from_this(), turn = turn_](error_code aborted) {
                         if (!aborted && self->done_ && self->turn_ == turn) self->on_connected();
                       });
  }

  void on_connected() {
    if (const int error = connect_result(socket_.get()); error != 0)
      return failed(fail_socket("connect", error).error());
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(timer_.expiry() - Clock::now());
    ++turn_;
    timer_.cancel();
    connection_ =
        std::make_shared<Connection>(core, socket_.release(), addresses_[next_ - 1], Role::client, options_);
    connection_->handshake(
        std::min(options_.handshake_deadline, Duration{std::max<std::int64_t>(left.count(), 1)}),
        [self = shared_from_this()](Result<void> established) {
          const auto connection = std::exchange(self->connection_, nullptr);
          if (!self->done_) return;
          if (!established) return self->failed(established.error());
          self->finish(Channel(connection));
        });
  }

  void failed(Error error) {
    // An example of the text is "10.0.0.5:7700: connect: Connection refused". If the host is a name, the text
    // also contains the address.
    const std::string address = to_string(addresses_[next_ - 1]);
    if (error.what.starts_with(address)) error.what.erase(0, std::min(error.what.size(), address.size() + 2));
    if (address != name()) error.what = host_string(addresses_[next_ - 1]) + ": " + error.what;
    if (!error_) {
      error_ = Error{error.code, name() + ": " + error.what};
    } else {
      // If a peer has answered, its error is more useful than "unreachable" or "timed out", so the code of
      // its error is used.
      if (error_->code == Errc::peer_failed || error_->code == Errc::timed_out) error_->code = error.code;
      error_->what += "; " + error.what;
    }
    try_next();
  }

  void finish(Result<Channel> result) {
    stop();
    if (auto done = std::exchange(done_, nullptr)) done(std::move(result));
  }

  void stop() {
    ++turn_;
    core->remove(this);
    timer_.cancel();
    socket_.close();
    if (const auto connection = std::exchange(connection_, nullptr)) connection->abandon();
  }

  const std::string host_;
  const std::uint16_t port_;
  const ChannelOptions options_;
  const Clock::time_point deadline_;
  const std::int64_t allowed_ms_;
  ConnectHandler done_;
  LoopSocket socket_;
  boost::asio::steady_timer timer_;
  std::shared_ptr<Connection> connection_;
  std::vector<Address> addresses_;
  std::size_t next_ = 0;
  std::uint64_t turn_ = 0;
  std::optional<Error> error_;
};

Connecting connect(ControlLoop& loop, std::string host, std::uint16_t port, const ChannelOptions& options,
                   Duration deadline, ConnectHandler done) {
  auto attempt = std::make_shared<Connecting::Attempt>(loop.core(), std::move(host), port, options, deadline,
                                                       std::move(done));
  (void)loop.post([attempt] { attempt->begin(); });
  return Connecting(std::move(attempt));
}

void Connecting::cancel() {
  if (!attempt_) return;
  const auto attempt = std::move(attempt_);
  const auto core = attempt->core;
  core->run_and_wait([&] { attempt->cancel(); });
}

Connecting::~Connecting() {
  cancel();
}

Connecting& Connecting::operator=(Connecting&& other) noexcept {
  if (this != &other) {
    cancel();
    attempt_ = std::move(other.attempt_);
  }
  return *this;
}

}  // namespace rdmc::control

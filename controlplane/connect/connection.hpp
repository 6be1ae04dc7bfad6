// The driver of one ChannelProtocol: a socket, a timer, and the queue of messages to send. The user has a
// Channel as the handle. The connection exists as long as the loop has operations for it. So the last bytes
// for the peer are sent even after the handle is destroyed. Internal to this folder. It must be used only on
// the loop's thread.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <memory>

#include "controlplane/connect/channel.hpp"
#include "controlplane/connect/channel_protocol.hpp"
#include "controlplane/connect/loop_core.hpp"
#include "controlplane/connect/loop_socket.hpp"
#include "controlplane/connect/socket.hpp"

namespace rdmc::control {

class Connection final : public LoopMember,
                         public ChannelEnd,
                         public std::enable_shared_from_this<Connection> {
 public:
  using HandshakeDone = std::move_only_function<void(Result<void>)>;

  /// Makes a connection from `socket`, which must be connected and non-blocking.
  Connection(std::shared_ptr<LoopCore> core, Descriptor socket, const Address& peer, Role role,
             const ChannelOptions& options);

  /// Runs the handshake. `done` is called exactly once, and never from inside this call. If abandon() is
  /// called first, `done` is not called.
  void handshake(Duration deadline, HandshakeDone done);
  /// Ends the handshake with `error`, if it is not finished.
  void refuse(Error error);

  void start(Channel::MessageHandler on_message, Channel::ClosedHandler on_closed) override;
  Result<void> send(Message message) override;
  void on_drained(Channel::DrainedHandler handler) override { on_drained_ = std::move(handler); }
  void close() override;
  void abandon() override;

  void on_loop_stop() override;

  const Address& peer() const override { return peer_; }
  Address local() const override { return local_; }
  std::optional<Duration> round_trip() const override { return control::round_trip(socket_.get()); }
  std::optional<std::array<std::byte, 16>> binding() const override { return protocol_.binding(); }
  std::size_t queued_bytes() const override { return queued_bytes_; }
  const std::shared_ptr<LoopCore>& core() const override { return core_; }

 private:
  /// The usual order of the states is handshaking, open, closing, closed. A connection that ends in another
  /// way goes from its current state to closed, directly or through draining. In the state draining, the last
  /// bytes for the peer are sent, and no user waits.
  enum class State { handshaking, open, closing, draining, closed };

  /// Runs `task`. Everything that the loop does for this connection is run by this function. If there is no
  /// memory, only this connection ends.
  template <typename Task>
  void with_memory(Task task) {
    try {
      task();
    } catch (const std::bad_alloc&) {
      end_without_memory();
    }
  }
  void end_without_memory() noexcept;

  void arm_read();
  void arm_write();
  void arm_timer(Duration delay);
  void flush_soon();

  void on_readable();
  void on_timer();
  void advance();
  bool deliver();
  void flush();
  bool fill_output();
  void tell_drained();

  /// Ends the connection and reports `error` to the user. If `drain` is true, the socket stays open for a
  /// short time, so that the last bytes are sent.
  void end(Error error, bool drain);
  void end_of_stream(int read_error);
  void report(Error error);
  void shut();
  Error about_peer(Errc code, const std::string& what) const {
    return {code, to_string(peer_) + ": " + what};
  }

  const std::shared_ptr<LoopCore> core_;
  const ChannelOptions options_;
  const Address peer_;
  Address local_;
  LoopSocket socket_;
  boost::asio::steady_timer timer_;
  ChannelProtocol protocol_;
  State state_ = State::handshaking;

  HandshakeDone handshake_done_;
  Channel::MessageHandler on_message_;
  Channel::ClosedHandler on_closed_;
  Channel::DrainedHandler on_drained_;
  std::optional<Error> early_end_;  // Set if the connection ended before start() was called.
  std::string deadline_text_;
  bool started_ = false;
  bool abandoned_ = false;
  bool delivering_ = false;

  struct Outgoing {
    std::array<std::byte, kLengthBytes> length;
    Message body;
    std::size_t sent = 0;  // The number of bytes of `length` and `body` that are already in the output.
    std::size_t size() const { return kLengthBytes + body.size(); }
  };
  std::deque<Outgoing> queue_;
  std::size_t queued_bytes_ = 0;
  std::size_t output_sent_ = 0;  // The number of bytes of protocol_.output() that the kernel has accepted.
  bool would_block_told_ = false;
  bool said_goodbye_ = false;
  bool shut_ = false;
  int write_error_ = 0;
  bool read_armed_ = false;
  bool write_armed_ = false;
  bool flush_posted_ = false;
};

}  // namespace rdmc::control

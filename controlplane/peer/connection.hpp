// The control connection between this process and another process, and the channels on it. It consists of a
// Conversation, the control::Channel that carries the conversation, and the handlers of the channels.
// Internal to this folder: code in other folders uses channels and Peer. It must be used on the control
// loop's thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "controlplane/connect/channel.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "controlplane/peer/conversation.hpp"

namespace rdmc::peer {

class SubChannel;

class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  /// The functions that inform the owner of the connection. They are called on the loop's thread, and never
  /// from inside a function of the connection that the owner calls.
  struct Handlers {
    std::function<void(Connection&, const Hello&)> introduced;
    std::function<void(Connection&, const Known&)> asked;
    std::function<void(Connection&, const Choice&)> chosen;
    std::function<void(Connection&, ChannelId, const std::string& service, Offer)> requested;
    /// Called when the connection and all its channels have ended. No other handler is called after this.
    std::function<void(Connection&, const Error&)> ended;
    /// Called when the last channel of the connection has ended.
    std::function<void(Connection&)> idle;
  };
  using OpenDone = std::move_only_function<void(Result<control::Channel>, Offer)>;

  /// `its_number` identifies the connection among the connections of its owner. `dials` is true if this side
  /// has dialed. `most_bytes` is the largest size of a message on `channel`.
  Connection(control::ControlLoop& loop, std::uint64_t its_number, control::Channel channel, bool dials,
             std::size_t most_bytes)
      : number(its_number),
        loop_(loop),
        channel_(std::move(channel)),
        conversation_(dials),
        dials_(dials),
        most_bytes_(most_bytes - kMostOverheadBytes) {}

  /// Begins to read from the channel. Must be called once.
  void start(Handlers handlers);
  void introduce(const Hello& ours);
  void ask(const Known& known);
  void answer(const Choice& choice);
  bool is_open() const { return conversation_.is_open() && !is_closing_; }
  /// Closes the connection in order. Its channels end later with cancelled. After this call, no handler of
  /// the owner is called.
  void close();
  /// The number of channels that are open or being opened.
  std::size_t channels() const { return conversation_.channels(); }
  /// The number of channels that were ended because they exceeded a limit.
  std::uint64_t channels_refused() const { return conversation_.channels_refused() + flooded_; }

  /// Opens a channel to a service of the peer. `done` is called once, and never from inside this call. It is
  /// not called if the connection is destroyed before. The new channel can be used at once.
  void open(std::string service, Offer offer, OpenDone done);
  /// Accepts a channel that `requested` has reported. Returns nullopt if the peer does not want the channel
  /// any more.
  std::optional<control::Channel> accept(ChannelId id, Offer offer);
  void refuse(ChannelId id, const Error& cause);

  bool dials() const { return dials_; }
  const Address& peer() const { return channel_.peer(); }
  Address local() const { return channel_.local(); }
  std::optional<Duration> round_trip() const { return channel_.round_trip(); }
  std::optional<Token> binding() const { return channel_.binding(); }
  const std::uint64_t number;  ///< Unique among the connections of the same owner.
  /// The peer's identity. Set once the peer has introduced itself.
  std::optional<Identity> identity;

  // The following functions, up to loop(), are for SubChannel.
  Result<void> send(ChannelId id, Bytes body);
  void close(ChannelId id);
  void drop(ChannelId id);
  /// Ends the channel as drop() does, because the peer has sent too much on it.
  void drop_flooded(ChannelId id) {
    ++flooded_;
    drop(id);
  }
  std::size_t queued_bytes() const { return channel_.queued_bytes(); }
  control::ControlLoop& loop() { return loop_; }

 private:
  void on_message(const Bytes& message);
  void on_closed(const Error& cause);
  void handle(Introduced& event);
  void handle(Known& known) { handlers_.asked(*this, known); }
  void handle(Choice& choice) { handlers_.chosen(*this, choice); }
  void handle(Requested& event);
  void handle(Accepted& event);
  void handle(Received& event);
  void handle(Closed& event);
  void handle(WasReset& event);
  void flush();
  void drained();
  void end(const Error& cause);
  std::shared_ptr<SubChannel> make_channel(ChannelId id);
  std::shared_ptr<SubChannel> take(ChannelId id);
  void tell_if_idle();

  control::ControlLoop& loop_;
  control::Channel channel_;
  Conversation conversation_;
  const bool dials_;
  const std::size_t most_bytes_;  ///< The largest size of a message of a service.
  std::optional<Bytes> held_;     ///< A message that waits for space in the channel's queue.
  Handlers handlers_;
  std::uint64_t flooded_ = 0;
  bool is_closing_ = false, is_over_ = false;
  std::map<ChannelId, OpenDone> asked_;
  std::map<ChannelId, std::weak_ptr<SubChannel>> channels_;
};

}  // namespace rdmc::peer

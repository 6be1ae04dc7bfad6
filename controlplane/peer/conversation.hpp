// One side of the control connection between two processes. First, both sides introduce themselves, and agree
// whether they use this connection or another connection between them. (Selection makes the contents of the
// messages for that.) Then they open channels to each other's services, accept or refuse channels, and
// exchange messages on them. Many channels share the connection. This is a core without clock, socket or
// randomness: its input is messages of the peer, and its output is events and messages for the peer. A
// Connection (connection.hpp) owns it. It must be used on the control loop's thread.
#pragma once

#include <deque>
#include <map>
#include <optional>

#include "controlplane/peer/messages.hpp"

namespace rdmc::peer {

/// The peer has introduced itself. The listener's side must now call Conversation::introduce().
struct Introduced {
  Hello hello;
};
/// The peer requests a channel to this service. The owner must answer with accept() or reset(), at once or
/// later.
struct Requested {
  ChannelId channel{};
  std::string service;
  Offer offer;
};
/// The peer has accepted a channel that this side had requested.
struct Accepted {
  ChannelId channel{};
  Offer offer;
};
struct Received {
  ChannelId channel{};
  Bytes body;
};
/// Both sides have closed the channel in order.
struct Closed {
  ChannelId channel{};
};
/// The peer has ended the channel, or refused to open it.
struct WasReset {
  ChannelId channel{};
  Error cause;
};
using Event = std::variant<Introduced, Known, Choice, Requested, Accepted, Received, Closed, WasReset>;

class Conversation {
 public:
  /// The largest number of channels at the same time, counting the channels of both sides. Further channels
  /// of the peer are refused with resource_limit.
  static constexpr std::size_t kMostChannels = 1024;

  /// The largest number of messages that wait because the peer does not read. If this number is reached, a
  /// further message of the peer breaks the protocol.
  static constexpr std::size_t kMostWaiting = 4 * kMostChannels;
  /// The length of the longest first message. The first message arrives before the peer's identity is known.
  static constexpr std::size_t kMostHelloBytes = 8 * 1024;

  /// `dials` is true if this side has dialed the connection.
  explicit Conversation(bool dials) : dials_(dials), next_(dials ? 1 : 2) {}

  /// Takes in a message of the peer. Errors: protocol_error, version_mismatch. After an error the connection
  /// must not be used.
  Result<void> on_message(std::span<const std::byte> bytes);

  /// Introduces this side. Must be called once. The dialer calls it at once, and the listener calls it after
  /// Introduced.
  void introduce(const Hello& ours);
  /// Asks which connection both sides use. Must be called only by the dialer. The answer is the event Choice.
  /// Precondition: is_open().
  void ask(const Known& known);
  /// Answers Known. Must be called only by the listener.
  void answer(const Choice& choice);
  /// True if both sides have introduced themselves.
  bool is_open() const { return has_spoken_ && has_heard_; }

  /// Requests a channel. Precondition: is_open(). Errors: resource_limit if there are kMostChannels already.
  Result<ChannelId> open(std::string service, Offer offer);
  /// Accepts a channel that Requested has reported. Returns false if the channel has ended meanwhile.
  bool accept(ChannelId channel, Offer offer);
  /// Sends a message on the channel. Errors: cancelled if the channel is not open.
  Result<void> send(ChannelId channel, Bytes body);
  /// Ends the channel in order. The event Closed follows when the peer has answered. A channel that is not
  /// open yet ends at once, as with reset().
  void close(ChannelId channel);
  /// Ends or refuses the channel. No event for this channel follows.
  void reset(ChannelId channel, const Error& cause);
  std::size_t channels() const { return channels_.size(); }
  /// The number of channels that the peer requested and that were refused because of kMostChannels.
  std::uint64_t channels_refused() const { return channels_refused_; }

  std::optional<Event> poll_event();
  /// Returns the next message for the peer, or nullopt if none waits.
  std::optional<Bytes> poll_transmit();

 private:
  /// The states have these meanings:
  /// - asked: this side has requested the channel.
  /// - requested: the peer has requested the channel.
  /// - closing: this side has sent Close.
  enum class State : std::uint8_t { asked, requested, open, closing };

  bool is_ours(ChannelId channel) const { return (static_cast<std::uint32_t>(channel) % 2 == 1) == dials_; }
  /// True if the channel existed and has ended. Messages for the channel may still arrive, because the peer
  /// sent them before it learned of the end.
  bool is_over(ChannelId channel) const;
  State* find(ChannelId channel);
  void say(const Message& message) { transmit_.push_back(encode(message)); }

  Result<void> on(Hello&& hello);
  Result<void> on(Known&& known);
  Result<void> on(Choice&& choice);
  Result<void> on(Open&& open);
  Result<void> on(Accept&& accept);
  Result<void> on(Data&& data);
  Result<void> on(Close&& close);
  Result<void> on(Reset&& reset);

  const bool dials_;
  bool has_spoken_ = false, has_heard_ = false;
  bool is_asking_ = false;   ///< True if this side has sent Known and waits for the Choice.
  std::uint32_t next_;       ///< The number of the next channel that this side opens.
  std::uint32_t heard_ = 0;  ///< The highest number of a channel that the peer has opened.
  std::map<ChannelId, State> channels_;
  std::uint64_t channels_refused_ = 0;
  std::deque<Event> events_;
  std::deque<Bytes> transmit_;
};

}  // namespace rdmc::peer

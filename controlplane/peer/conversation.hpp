// One side of the control connection between two processes. Both sides introduce themselves, and agree
// whether they use this connection or another one between them (Selection makes the contents of these
// messages). Then they open channels to each other's services, accept or refuse them, and exchange messages
// on them. Many channels share the connection. This is a core without clock, socket or randomness: messages
// of the peer go in, events and messages for the peer come out. A Connection (connection.hpp) owns it. Used
// on the control loop's thread.
#pragma once

#include <deque>
#include <map>
#include <optional>

#include "controlplane/peer/messages.hpp"

namespace rdmc::peer {

/// The peer has introduced itself. The listener's side answers with Conversation::introduce().
struct Introduced {
  Hello hello;
};
/// The peer requests a channel to this service. It must be answered with accept() or reset(), now or later.
struct Requested {
  ChannelId channel{};
  std::string service;
  Offer offer;
};
/// The peer has accepted the channel that this side has requested.
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
  /// The largest number of channels at the same time, of both sides together. More channels of the peer are
  /// refused with resource_limit.
  static constexpr std::size_t kMostChannels = 1024;

  /// The largest number of answers that wait because the peer does not read. A peer that then sends more
  /// messages breaks the protocol.
  static constexpr std::size_t kMostWaiting = 4 * kMostChannels;
  /// The length of the longest first message. It arrives before the peer's identity is known.
  static constexpr std::size_t kMostHelloBytes = 8 * 1024;

  /// `dials` is true if this side has made the connection.
  explicit Conversation(bool dials) : dials_(dials), next_(dials ? 1 : 2) {}

  /// Takes in a message of the peer. Errors: protocol_error, version_mismatch. After an error the connection
  /// must not be used.
  Result<void> on_message(std::span<const std::byte> bytes);

  /// Introduces this side. Must be called once: by the dialer at once, by the listener after Introduced.
  void introduce(const Hello& ours);
  /// Called by the dialer to ask which connection both sides use. Choice follows. Precondition: is_open().
  void ask(const Known& known);
  /// Called by the listener to answer Known.
  void answer(const Choice& choice);
  /// True if both sides have introduced themselves.
  bool is_open() const { return has_spoken_ && has_heard_; }

  /// Requests a channel. Precondition: is_open(). Errors: resource_limit (kMostChannels).
  Result<ChannelId> open(std::string service, Offer offer);
  /// Answers Requested. Returns false if the channel has ended meanwhile.
  bool accept(ChannelId channel, Offer offer);
  /// Errors: cancelled if the channel is not open.
  Result<void> send(ChannelId channel, Bytes body);
  /// Ends the channel in order. Closed follows when the peer has answered. A channel that is not open yet
  /// ends at once, as with reset().
  void close(ChannelId channel);
  /// Ends or refuses the channel. No event follows.
  void reset(ChannelId channel, const Error& cause);
  std::size_t channels() const { return channels_.size(); }
  /// The number of channels of the peer that were refused because of kMostChannels.
  std::uint64_t channels_refused() const { return channels_refused_; }

  std::optional<Event> poll_event();
  /// Returns the next message for the peer, or nullopt if none waits.
  std::optional<Bytes> poll_transmit();

 private:
  /// asked: this side has requested the channel. requested: the peer has requested it. closing: this side has
  /// sent Close.
  enum class State : std::uint8_t { asked, requested, open, closing };

  bool is_ours(ChannelId channel) const { return (static_cast<std::uint32_t>(channel) % 2 == 1) == dials_; }
  /// True if the channel was used and has ended. Messages may still arrive for it: the peer sent them before
  /// it knew of the end.
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
  bool is_asking_ = false;   ///< This side has sent Known and waits for the Choice.
  std::uint32_t next_;       ///< The number of the next channel that this side opens.
  std::uint32_t heard_ = 0;  ///< The highest number of a channel that the peer has opened.
  std::map<ChannelId, State> channels_;
  std::uint64_t channels_refused_ = 0;
  std::deque<Event> events_;
  std::deque<Bytes> transmit_;
};

}  // namespace rdmc::peer

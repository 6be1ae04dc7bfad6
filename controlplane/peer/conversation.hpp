// One side of the control connection between two processes: both say who they are, agree on whether they use
// this connection or another one between them (the contents are Selection's), and then open channels to
// each other's services, accept or refuse them, and talk on them. Many channels share the connection. Pure:
// no clock, no socket, no randomness; messages of the peer go in, events and messages for the peer come out.
// Owned by a Connection (connection.hpp); the control loop's thread.
#pragma once

#include <deque>
#include <map>
#include <optional>

#include "controlplane/peer/messages.hpp"

namespace rdmc::peer {

/// The peer has said who it is. The listener's side answers with Conversation::introduce().
struct Introduced {
  Hello hello;
};
/// The peer wants a channel to this service. To be answered with accept() or reset(), now or later.
struct Requested {
  ChannelId channel{};
  std::string service;
  Offer offer;
};
/// The peer has opened the channel that we asked for.
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
  /// Channels at a time, of both sides together. What the peer asks for beyond them is refused with
  /// resource_limit.
  static constexpr std::size_t kMostChannels = 1024;

  /// Answers that wait because the peer does not read. Who asks for more breaks the protocol.
  static constexpr std::size_t kMostWaiting = 4 * kMostChannels;
  /// The longest first message: it comes before we know who speaks.
  static constexpr std::size_t kMostHelloBytes = 8 * 1024;

  /// `dials`: we have made the connection.
  explicit Conversation(bool dials) : dials_(dials), next_(dials ? 1 : 2) {}

  /// Errors: protocol_error, version_mismatch. After an error the connection is of no use.
  Result<void> on_message(std::span<const std::byte> bytes);

  /// Says who we are. Call it once: the dialer at once, the listener after Introduced.
  void introduce(const Hello& ours);
  /// The dialer asks which connection both use; Choice follows. After both introductions.
  void ask(const Known& known);
  /// The listener answers Known.
  void answer(const Choice& choice);
  /// Both sides have said who they are.
  bool is_open() const { return has_spoken_ && has_heard_; }

  /// Errors: resource_limit (kMostChannels). After both introductions.
  Result<ChannelId> open(std::string service, Offer offer);
  /// Answers Requested. False: the channel has ended meanwhile.
  bool accept(ChannelId channel, Offer offer);
  /// Errors: cancelled (the channel is not open).
  Result<void> send(ChannelId channel, Bytes body);
  /// Ends the channel in order; Closed follows when the peer has answered. A channel that is not open ends at
  /// once, as by reset().
  void close(ChannelId channel);
  /// Ends the channel, or refuses it, without any event.
  void reset(ChannelId channel, const Error& cause);
  std::size_t channels() const { return channels_.size(); }
  /// Channels of the peer beyond kMostChannels.
  std::uint64_t channels_refused() const { return channels_refused_; }

  std::optional<Event> poll_event();
  /// What waits to be sent, in order.
  std::optional<Bytes> poll_transmit();

 private:
  /// asked: by us; requested: by the peer; closing: we have said Close.
  enum class State : std::uint8_t { asked, requested, open, closing };

  bool is_ours(ChannelId channel) const { return (static_cast<std::uint32_t>(channel) % 2 == 1) == dials_; }
  /// The channel was used and has ended. Messages that still come for it were already on their way.
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
  bool is_asking_ = false;   ///< we have said Known, and wait for the Choice
  std::uint32_t next_;       ///< of our channels
  std::uint32_t heard_ = 0;  ///< the highest number that the peer has opened
  std::map<ChannelId, State> channels_;
  std::uint64_t channels_refused_ = 0;
  std::deque<Event> events_;
  std::deque<Bytes> transmit_;
};

}  // namespace rdmc::peer

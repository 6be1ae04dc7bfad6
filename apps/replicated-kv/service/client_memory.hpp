// Bounds the memory that the clients of a server need together: for requests that are not complete, for
// transactions, and for replies that are not read. While they need more than the limit, only clients that
// need little may send. The others take turns: one at a time may send, until its request is complete. So a
// load that is too high makes clients wait, and loses nothing. A client that needs much and does nothing for
// kPatience loses its connection, if the limit is still exceeded. This time is only kTurn for clients that do
// not read their replies, while these replies exceed the limit also without the longest ones of one client.
// It is a state machine without a clock. One thread uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "apps/replicated-kv/data/database.hpp"

namespace rdmc::kv {

class ClientMemory {
 public:
  /// A client with at most this many bytes may always send.
  static constexpr std::size_t kSmall = 64 << 10;
  /// A client that has sent or read this many bytes has done something.
  static constexpr std::size_t kProgress = 16 << 10;
  /// A client whose turn it is, and that does nothing for this time, loses its turn.
  static constexpr Milliseconds kTurn = 1000;
  static constexpr Milliseconds kPatience = 10'000;

  /// The need of a client at one time.
  struct Need {
    std::size_t bytes = 0;
    std::size_t unread = 0;     ///< of these, the bytes that the client could read now
    bool is_sending = false;    ///< a request or a transaction of the client is not complete
    bool waits_for_us = false;  ///< the client has sent a request, and waits for the service
  };

  /// The limit in bytes for all clients. 0 means that there is no limit.
  void set_limit(std::size_t most) { most_ = most; }
  /// `now` is on the steady clock, also below.
  void update(std::uint64_t client, const Need& need, Milliseconds now);
  /// The client has sent or read this number of bytes.
  void progress(std::uint64_t client, std::size_t bytes, Milliseconds now);
  /// The client has something to send, but may_send() is false.
  void want_to_send(std::uint64_t client, Milliseconds now);
  void forget(std::uint64_t client, Milliseconds now);
  /// Ends the turn of a client that does nothing.
  void look(Milliseconds now);

  /// False if nothing should be read from the client at present.
  bool may_send(std::uint64_t client) const {
    return !is_exceeded() || client == sender_ || !large_.contains(client);
  }
  /// The client waits for its turn.
  bool waits_for_turn(std::uint64_t client) const {
    const auto known = large_.find(client);
    return known != large_.end() && known->second.turn != 0;
  }
  bool is_exceeded() const { return most_ != 0 && total_ > most_; }
  /// The bytes that the clients with more than kSmall bytes need. The others need at most kSmall each.
  std::size_t total() const { return total_; }
  /// Returns true if clients may send now for which may_send() was false before. Then large() are such
  /// clients.
  bool take_change() { return std::exchange(has_changed_, false); }
  bool has_changed() const { return has_changed_; }
  /// Returns a client that must lose its connection.
  std::optional<std::uint64_t> victim(Milliseconds now) const;

  struct Large {
    Need need;
    std::size_t progress = 0;  ///< bytes that do not make kProgress yet
    Milliseconds progressed_at = 0;
    std::uint64_t turn =
        0;  ///< the client with the lowest number is the next one to send; 0: it wants nothing
  };
  /// The clients with more than kSmall bytes, by number.
  const std::map<std::uint64_t, Large>& large() const { return large_; }

 private:
  void choose_sender(Milliseconds now);
  void forget_large(std::map<std::uint64_t, Large>::iterator known);
  void note(bool was_exceeded, Milliseconds now);

  std::size_t most_ = 0, total_ = 0;
  std::map<std::uint64_t, Large> large_;
  std::uint64_t sender_ = 0;  // 0: none
  std::uint64_t last_turn_ = 0;
  Milliseconds exceeded_since_ = 0;
  bool has_changed_ = false;
};

}  // namespace rdmc::kv

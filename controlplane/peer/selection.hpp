// Selects one of several connections between this process and another process. Both processes use only this
// connection. There can be several connections because two processes may dial each other at the same moment,
// or at several addresses at once. Only the answers show that the processes are already connected. The
// process with the smaller incarnation decides, about one connection after the other. So there is one order
// of decisions, and exactly one connection remains. The other process must wait before it uses a connection
// that it has dialed: it proves which connections it has (Known), and waits for the decision (Choice). A
// surplus connection carries no channels. The side that has dialed it ends it at once.
//
// If a process knows a connection's secret, it is the process at the other end of this connection. An
// identity alone proves nothing. If two connections end at the same process, the later introduction contains
// a proof of the earlier connection, in the answer to Hello or in Known. So the side that decides learns that
// both connections end at the same process, in whatever order the proofs arrive.
//
// This is a core: it has no clock, no socket, and no randomness. Peers owns it. It must be used on the
// control loop's thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <variant>

#include "controlplane/peer/messages.hpp"

namespace rdmc::peer {

class Selection {
 public:
  /// The number of a connection in this process. An older connection has a smaller number.
  using Number = std::uint64_t;

  /// The actions that the caller must take after a message.
  struct Step {
    /// The message that must be sent on the connection on which the message has arrived.
    std::optional<std::variant<Known, Choice>> say;
    /// Set if the dial of the connection on which the message has arrived is complete. The value is the
    /// connection that this process must use. If it is not the dialed connection, the caller must close the
    /// dialed connection. Selection has already removed the dialed connection.
    std::optional<Number> use;
  };

  explicit Selection(const Identity& ours) : ours_(ours) {}

  /// Called when this process has dialed the connection. Returns the first message to send on it.
  Hello dial(Number connection, const Token& nonce, const Token& secret);
  /// Called when the other side has dialed the connection and has sent `theirs`. Returns the answer.
  Hello answer(Number connection, const Hello& theirs, const Token& nonce);

  Step on_answer(Number connection, const Hello& theirs);
  Step on_known(Number connection, const Known& known);
  Step on_choice(Number connection, const Choice& choice);
  /// Called when the other side has opened a channel on the connection.
  void on_use(Number connection);
  void on_end(Number connection);

 private:
  /// These states need an explanation:
  /// - dialing: the peer has not answered yet.
  /// - surplus: this side has informed the dialing side that it must use another connection.
  /// - lost: the peer has shown that the connection has ended at its side. This side has not noticed the end
  ///   yet.
  enum class State : std::uint8_t { dialing, undecided, used, surplus, lost };
  struct Entry {
    State state{};
    bool dials = false;
    Token nonce{}, their_nonce{};
    Token secret{};
    std::optional<Identity> identity;
    /// The connections that were proved to end at the same process as this one. Used until this connection is
    /// decided.
    std::set<Number> same;
    /// For a surplus connection, the connection that the other side must use instead.
    std::optional<Number> instead;
  };

  bool decides(const Entry& entry) const;
  Proof prove(const Entry& to, const Entry& known) const;
  bool is_proved(const Entry& by, const Entry& known, std::span<const Proof> proofs) const;
  std::vector<Proof> prove_all(Number to, bool only_used) const;
  /// Returns the oldest connection that one of the proofs proves, or nullopt.
  std::optional<Number> find(Number by, std::span<const Proof> proofs) const;
  Number decide(Number connection, std::span<const Proof> proofs);
  Step end_dial(Number connection, Number use);

  const Identity ours_;
  std::map<Number, Entry> entries_;
};

}  // namespace rdmc::peer

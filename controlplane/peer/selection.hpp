// Which of several connections between this process and another one both of them use. Two processes may dial
// each other at the same moment, or at several addresses at once, and only the answers tell them that they
// had each other already. Of the two, the process with the smaller incarnation decides, for one connection
// after the other: so there is one order of decisions, and exactly one connection stays. The other process
// says what it has before it uses a connection that it has dialed (Known), and waits for the decision
// (Choice). A connection that is not the one carries nothing, and ends at once, at the side that has dialed
// it.
//
// Whoever knows a connection's secret is the process at its other end; a name alone shows nothing. Of any two
// connections to the same process, the one that the process comes to know later is introduced with a proof of
// the earlier one, in the answer to Hello or in Known. So the side that decides knows them to be two,
// whatever the order in which it hears the proofs.
//
// Pure: no clock, no socket, no randomness. Owned by Peers; the control loop's thread.
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
  /// Of a connection, in this process. Smaller ones are older.
  using Number = std::uint64_t;

  /// It says what is to be done because a message has come.
  struct Step {
    /// To be said on the connection on which the message came.
    std::optional<std::variant<Known, Choice>> say;
    /// Our dial on that connection is over: this is the connection to use. If it is another one, that one is
    /// to be closed, and is forgotten here.
    std::optional<Number> use;
  };

  explicit Selection(const Identity& ours) : ours_(ours) {}

  /// We have made the connection: what we say first.
  Hello dial(Number connection, const Token& nonce, const Token& secret);
  /// The other side has made it: our answer to what it said first.
  Hello answer(Number connection, const Hello& theirs, const Token& nonce);

  Step on_answer(Number connection, const Hello& theirs);
  Step on_known(Number connection, const Known& known);
  Step on_choice(Number connection, const Choice& choice);
  /// The other side has opened a channel on it.
  void on_use(Number connection);
  void on_end(Number connection);

 private:
  /// dialing: not answered yet; surplus: we have told the side that dialed it to use another one; lost: that
  /// side has shown that it has ended there, and we have not heard of its end yet.
  enum class State : std::uint8_t { dialing, undecided, used, surplus, lost };
  struct Entry {
    State state{};
    bool dials = false;
    Token nonce{}, their_nonce{};
    Token secret{};
    std::optional<Identity> identity;
    std::set<Number> same;  ///< those that have proved to end at the same process, until this one is decided
    std::optional<Number> instead;  ///< of a surplus one: which one the other side was told to use
  };

  bool decides(const Entry& entry) const;
  Proof prove(const Entry& to, const Entry& known) const;
  bool is_proved(const Entry& by, const Entry& known, std::span<const Proof> proofs) const;
  std::vector<Proof> prove_all(Number to, bool only_used) const;
  /// The oldest one of which there is a proof.
  std::optional<Number> find(Number by, std::span<const Proof> proofs) const;
  Number decide(Number connection, std::span<const Proof> proofs);
  Step end_dial(Number connection, Number use);

  const Identity ours_;
  std::map<Number, Entry> entries_;
};

}  // namespace rdmc::peer

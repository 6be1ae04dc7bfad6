#include "controlplane/peer/selection.hpp"

#include <algorithm>

#include "controlplane/peer/same_process.hpp"

namespace rdmc::peer {

Hello Selection::dial(Number connection, const Token& nonce, const Token& secret) {
  Entry& entry = entries_[connection];
  entry.dials = true;
  entry.nonce = nonce;
  entry.secret = secret;
  return {.identity = ours_, .nonce = nonce, .secret = secret, .proofs = {}};
}

Hello Selection::answer(Number connection, const Hello& theirs, const Token& nonce) {
  Entry& entry = entries_[connection];
  entry.state = State::undecided;
  entry.nonce = nonce;
  entry.their_nonce = theirs.nonce;
  entry.secret = theirs.secret;
  entry.identity = theirs.identity;
  return {.identity = ours_, .nonce = nonce, .secret = {}, .proofs = prove_all(connection, decides(entry))};
}

Selection::Step Selection::on_answer(Number connection, const Hello& theirs) {
  Entry& entry = entries_.at(connection);
  entry.state = State::undecided;
  entry.their_nonce = theirs.nonce;
  entry.identity = theirs.identity;
  if (decides(entry)) return end_dial(connection, decide(connection, theirs.proofs));
  if (const auto used = find(connection, theirs.proofs)) return end_dial(connection, *used);
  return {.say = Known{prove_all(connection, false)}, .use = {}};
}

Selection::Step Selection::on_choice(Number connection, const Choice& choice) {
  if (!choice.proof) return end_dial(connection, connection);
  if (const auto used = find(connection, {&*choice.proof, 1})) return end_dial(connection, *used);
  // The chosen connection has ended at this side. The new Known shows that to the other side.
  return {.say = Known{prove_all(connection, false)}, .use = {}};
}

Selection::Step Selection::on_known(Number connection, const Known& known) {
  const Entry& entry = entries_.at(connection);
  if (entry.instead) {
    const auto told = entries_.find(*entry.instead);
    if (told != entries_.end() && !is_proved(entry, told->second, known.proofs))
      told->second.state = State::lost;
  }
  const Number chosen = decide(connection, known.proofs);
  Choice choice;
  if (chosen != connection) choice.proof = prove(entry, entries_.at(chosen));
  return {.say = choice, .use = {}};
}

void Selection::on_use(Number connection) {
  if (const auto found = entries_.find(connection); found != entries_.end())
    found->second.state = State::used;
}

void Selection::on_end(Number connection) {
  entries_.erase(connection);
  for (auto& [number, other] : entries_) other.same.erase(connection);
}

/// True if this side decides. Both sides get the same result. If a process has dialed itself, the side that
/// has dialed decides.
bool Selection::decides(const Entry& entry) const {
  const Incarnation &our = ours_.incarnation, &their = entry.identity->incarnation;
  return our == their ? entry.dials : our < their;
}

Proof Selection::prove(const Entry& to, const Entry& known) const {
  return proof_of(known.secret, *to.identity, ours_, to.their_nonce);
}

bool Selection::is_proved(const Entry& by, const Entry& known, std::span<const Proof> proofs) const {
  return !proofs.empty() &&
         std::ranges::find(proofs, proof_of(known.secret, ours_, *by.identity, by.nonce)) != proofs.end();
}

std::vector<Proof> Selection::prove_all(Number to, bool only_used) const {
  const Entry& entry = entries_.at(to);
  std::vector<Proof> proofs;
  for (const auto& [number, known] : entries_) {
    const bool is_known = number != to && known.identity == entry.identity;
    if (!is_known || (only_used && known.state != State::used)) continue;
    if (proofs.size() < kMostProofs) proofs.push_back(prove(entry, known));
  }
  return proofs;
}

std::optional<Selection::Number> Selection::find(Number by, std::span<const Proof> proofs) const {
  const Entry& entry = entries_.at(by);
  const auto found = std::ranges::find_if(entries_, [&](const auto& each) {
    return each.first != by && each.second.identity == entry.identity &&
           is_proved(entry, each.second, proofs);
  });
  return found == entries_.end() ? std::nullopt : std::optional(found->first);
}

/// Called on the side that decides. Decides which connection both sides use, and returns this connection. If
/// another connection to the same process is used, `connection` becomes surplus. Connections that are not
/// decided yet remember the decision.
Selection::Number Selection::decide(Number connection, std::span<const Proof> proofs) {
  Entry& entry = entries_.at(connection);
  std::optional<Number> used, surplus;
  std::vector<Entry*> undecided;
  for (auto& [number, other] : entries_) {
    const bool may_be = number != connection && (!other.identity || other.identity == entry.identity);
    if (!may_be || !(entry.same.contains(number) || is_proved(entry, other, proofs))) continue;
    if (other.state == State::used && !used) used = number;
    if (other.state == State::surplus && !surplus) surplus = number;
    if (other.state == State::dialing || other.state == State::undecided) undecided.push_back(&other);
  }
  // If the connection that was chosen in place of a surplus connection has ended, the surplus connection is
  // used again.
  const Number chosen = entry.state == State::used ? connection : used.value_or(surplus.value_or(connection));
  for (Entry* const other : undecided) other->same.insert({connection, chosen});
  entry.state = State::surplus;
  entry.instead = chosen;
  entries_.at(chosen).state = State::used;
  entries_.at(chosen).instead.reset();
  return chosen;
}

Selection::Step Selection::end_dial(Number connection, Number use) {
  if (use != connection) on_end(connection);
  entries_.at(use).state = State::used;
  return {.say = {}, .use = use};
}

}  // namespace rdmc::peer

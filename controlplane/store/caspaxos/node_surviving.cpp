// The handling of the case that a majority of the store has lost its state. The nodes report this loss. An
// operator can then name one node, which begins the store again with the state that it keeps. This destroys
// the state of the other nodes. So the named node asks the others first, and refuses if the store can
// continue by itself.
#include <algorithm>
#include <utility>

#include "controlplane/store/caspaxos/node.hpp"

namespace rdmc::store {

/// Returns the id of the acceptor at that node. Returns zero if the node has not reported an id.
Id Node::id_at(std::size_t node) const {
  return node == options_.self ? acceptor_.kept().id : peers_[node].id;
}

/// True if the node has the state of this configuration.
bool Node::has_state_of(std::size_t node, const Configuration& configuration) const {
  if (node == options_.self) return acceptor_.kept().active.epoch == configuration.epoch;
  const Peer& peer = peers_[node];
  return peer.state && peer.state->epoch == configuration.epoch && configuration.contains(peer.id);
}

/// True if so many of these acceptors have been replaced by other acceptors that the remaining ones are no
/// majority.
bool Node::has_lost_majority_of(const std::vector<Id>& acceptors) const {
  std::size_t lost = 0;
  for (std::size_t node = 0; node < acceptors.size() && node < peers_.size(); ++node)
    if (acceptors[node] && id_at(node) && id_at(node) != acceptors[node]) ++lost;
  return lost > Configuration::count_of(acceptors) - Configuration::majority_of(acceptors);
}

/// True if the store cannot continue without an operator. While no node has the state of the last
/// configuration, a majority of the configuration before it must provide the state.
bool Node::has_lost_majority() const {
  const Configuration& last = known();
  if (last.epoch == 0) return false;
  if (has_lost_majority_of(last.acceptors)) return true;
  for (std::size_t node = 0; node < peers_.size(); ++node)
    if (has_state_of(node, last)) return false;
  return has_lost_majority_of(last.from);
}

bool Node::is_majority(const std::set<std::size_t>& alive, const std::vector<Id>& acceptors) const {
  const auto count = std::ranges::count_if(
      alive, [&](std::size_t node) { return node < acceptors.size() && id_at(node) == acceptors[node]; });
  return static_cast<std::size_t>(count) >= Configuration::majority_of(acceptors);
}

/// True if these nodes are enough for the store to continue without an operator.
bool Node::can_go_on(const std::set<std::size_t>& alive) const {
  const Configuration& last = known();
  if (!is_majority(alive, last.acceptors)) return false;
  return last.from.empty() || is_majority(alive, last.from) ||
         std::ranges::any_of(alive, [&](std::size_t node) { return has_state_of(node, last); });
}

void Node::receive_survive(Client client, std::uint64_t id, bool force, Time now) {
  if (force) return survive(client, id);
  if (naming_)
    return refuse(client, id, Refused::busy, "the node has been named already, and asks the others");
  naming_ = {client, id, ++namings_, now, now + kHeardWithin, {options_.self}};
  ask_alive(now);
  decide_on_naming(now);
}

void Node::ask_alive(Time now) {
  if (now < naming_->ask_at) return;
  naming_->ask_at = now + kAskAlive;
  ask_peers(StateRequest{}, naming_->asked);
}

void Node::decide_on_naming(Time now) {
  const bool can_go_on_without = can_go_on(naming_->alive);
  if (!can_go_on_without && naming_->alive.size() < peers_.size() && now < naming_->until) return;
  const Naming naming = *std::exchange(naming_, std::nullopt);
  if (can_go_on_without)
    refuse(naming.client, naming.id, Refused::not_serving,
           "a majority of the store's nodes answers and has its state: the store needs no survivor");
  else
    survive(naming.client, naming.id);
}

void Node::survive(Client client, std::uint64_t id) {
  if (!acceptor_.has_state() || acceptor_.is_replaced())
    return refuse(client, id, Refused::not_serving, "the node has no state that could survive");
  constexpr std::uint64_t kMostForced = kMaxEpoch - (kMostNodes + 2) * Acceptor::kForcedEpochs;
  if (acceptor_.newest().epoch > kMostForced)
    return refuse(client, id, Refused::out_of_range, "the numbers of configurations are used up");
  const std::uint64_t earliest_run = std::min(options_.started, kMostForced / Acceptor::kForcedEpochs);
  acceptor_.survive(options_.self, options_.nodes, earliest_run);
  known_ = acceptor_.newest();
  proposer_.reset();
  gathered_.clear();
  naming_.reset();
  serve(client, id, {Done{}, acceptor_.everything()});
  silent_until_ = acceptor_.everything();
}

}  // namespace rdmc::store

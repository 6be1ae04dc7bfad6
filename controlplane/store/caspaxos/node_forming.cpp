// The functions that bring a node into a configuration. This is the first configuration, a configuration that
// the node joins with a new acceptor, or the configuration that replaces the node's own one.
#include <algorithm>
#include <utility>

#include "controlplane/store/caspaxos/node.hpp"

namespace rdmc::store {
namespace {

/// The numbers of this node's proposals begin here. They are above every epoch, so that the answers to
/// proposals differ from all other answers.
constexpr std::uint64_t kFirstProposal = 2 * kMaxEpoch;

}  // namespace

/// Handles a configuration that was agreed, or an empty one.
void Node::learn(const Configuration& configuration, Time now) {
  if (configuration.epoch > known().epoch) {
    known_ = configuration;
    candidate_.reset();
    proposer_.reset();
    behind_ = false;
    ask_at_ = now;
    ask_every_ = kAsk;
  }
  if (configuration.epoch == known_.epoch && acceptor_.adopt(known_)) {
    gathering_ = known_.epoch;
    gathered_.clear();
    try_activate(now);
  }
}

void Node::look_around(Time now) {
  if (acceptor_.newest().epoch != 0 && !acceptor_.is_serving()) {
    ask_peers(StateTransfer{acceptor_.newest()}, gathering_);
    try_activate(now);
  }
  // If all other nodes have answered, no node knows a newer configuration.
  if (behind_ && std::ranges::all_of(peers_, [this](const Peer& peer) {
        return peer.heard || &peer == &peers_[options_.self];
      }))
    behind_ = false;
  for (Peer& peer : peers_) peer.heard = false;
  ask_peers(StateRequest{}, 0);
  if (acceptor_.is_serving()) ask_peers(Adopt{acceptor_.newest()}, 0);
  if (candidate_) ask_peers(Vote{*candidate_}, candidate_->epoch);
  if (options_.nodes == 1) look_for_first_configuration(now);
  ask_at_ = now + ask_every_;
  ask_every_ = std::min(ask_every_ * 2, kMostAsk);
}

/// Forms the store. Only the first node does this, and only when all other nodes have just reported that they
/// have no state. A first configuration begins when all its acceptors have voted for it. Each acceptor votes
/// at most once in an epoch.
void Node::look_for_first_configuration(Time now) {
  if (options_.self != 0 || known().epoch != 0 || candidate_) return;
  Configuration first{.epoch = acceptor_.kept().vote.epoch, .acceptors = {acceptor_.kept().id}};
  for (std::size_t node = 1; node < peers_.size(); ++node) {
    const Peer& peer = peers_[node];
    if (!peer.heard || peer.state->stage != Stage::fresh || !peer.id || first.contains(peer.id)) return;
    first.acceptors.push_back(peer.id);
    first.epoch = std::max(first.epoch, peer.state->vote.epoch);
  }
  if (first.epoch >= kMaxEpoch) return;
  ++first.epoch;
  const Acceptor::Answer own = acceptor_.vote(first);
  if (!std::holds_alternative<Done>(own.body)) return;
  candidate_ = std::move(first);
  votes_.clear();
  own_vote_after_ = own.after;
  ask_peers(Vote{*candidate_}, candidate_->epoch);
  count_own_vote(now);
}

/// Called when another node has reported its state. Handles the case that this node has voted for two first
/// configurations, and the earlier configuration has begun. This node may take part in the earlier
/// configuration if the later configuration cannot begin any more. This is certain if some acceptor is part
/// of both configurations and has not voted for the later configuration. The reason is that an acceptor of a
/// configuration that has begun never votes again.
void Node::reconsider_vote(const Id& peer, const NodeState& state, Time now) {
  const Configuration& vote = acceptor_.kept().vote;
  if (acceptor_.newest().epoch != 0 || !known_.from.empty() || !known_.contains(acceptor_.kept().id)) return;
  const bool is_part = state.stage == Stage::serving || state.stage == Stage::joining;
  if (!is_part || !vote.contains(peer) || state.vote == vote) return;
  acceptor_.return_to(known_);
  learn(known_, now);
}

void Node::count_vote(std::size_t node, const Reply& reply, Time now) {
  if (reply.acceptor != candidate_->acceptors[node]) {
    candidate_.reset();  // The node has started again with another acceptor.
    return;
  }
  if (reply.id != candidate_->epoch) return;
  if (std::holds_alternative<Done>(reply.body)) {
    votes_.insert(node);
    count_own_vote(now);
  } else if (std::holds_alternative<Refusal>(reply.body)) {
    candidate_.reset();
  }
}

void Node::count_own_vote(Time now) {
  if (!candidate_ || own_vote_after_ > synced_) return;
  votes_.insert(options_.self);
  if (votes_.size() < options_.nodes) return;
  const Configuration formed = *candidate_;
  ask_peers(Adopt{formed}, 0);
  learn(formed, now);
}

void Node::gather(const Reply& reply, Time now) {
  if (acceptor_.newest().epoch == 0 || acceptor_.is_serving() || acceptor_.is_replaced()) return;
  if (reply.id != gathering_ || gathering_ != acceptor_.newest().epoch) return;
  const Contents& contents = std::get<Contents>(reply.body);
  const Configuration& next = acceptor_.newest();
  // An acceptor that is active in this epoch has everything that was chosen in earlier epochs.
  if (contents.epoch == next.epoch && next.contains(reply.acceptor)) return activate(contents.registers, now);
  if (contents.epoch == next.from_epoch && Configuration::is_among(next.from, reply.acceptor))
    gathered_[reply.acceptor] = contents.registers;
  try_activate(now);
}

/// Begins the next epoch if a majority of the earlier epoch's acceptors is sealed and has sent its registers.
/// For each register, the accepted proposal with the highest ballot is used.
void Node::try_activate(Time now) {
  const Configuration& next = acceptor_.newest();
  if (next.epoch == 0 || acceptor_.is_serving() || acceptor_.is_replaced()) return;
  const Id& self = acceptor_.kept().id;
  if (acceptor_.kept().active.epoch == next.from_epoch && Configuration::is_among(next.from, self))
    gathered_[self] = acceptor_.contents();
  if (!next.from.empty() && gathered_.size() < Configuration::majority_of(next.from)) return;
  Registers merged;
  for (auto& [acceptor, registers] : gathered_)
    for (auto& [name, accepted] : registers)
      if (Accepted& highest = merged[name]; highest.ballot < accepted.ballot) highest = accepted;
  activate(std::move(merged), now);
}

void Node::activate(Registers registers, Time now) {
  acceptor_.activate(std::move(registers));
  gathered_.clear();
  sealed_since_ = Time::never();
  // Other nodes may be waiting for the state that this node has now.
  ask_peers(Adopt{acceptor_.newest()}, 0);
  ask_at_ = now;
}

Time Node::complete_at() const {
  if (sealed_since_ == Time::never()) return sealed_since_;
  return sealed_since_ + kStalled * static_cast<std::int64_t>(options_.self + 1);
}

/// Proposes a configuration if this node has a reason for it. There are two possible reasons:
/// - This node has lost its state and wants to be admitted.
/// - This node is sealed, and the node that has sealed it has not completed the change in time.
void Node::propose_configuration(Time now) {
  if (proposer_) return;
  Configuration in;
  Bytes wanted;
  if (acceptor_.is_serving() && acceptor_.is_sealed() && now >= complete_at()) {
    in = acceptor_.newest();
    wanted = acceptor_.kept().registers.at(kConfigurationRegister).value;
  } else if (acceptor_.newest().epoch == 0 && known_.epoch != 0 && !known_.contains(acceptor_.kept().id) &&
             synced_ > 0) {  // The id of the acceptor is durable, so a restart does not change it.
    in = known_;
    Configuration with_us{known_.epoch + 1, known_.acceptors, known_.epoch, known_.acceptors};
    with_us.acceptors.resize(options_.nodes);
    with_us.acceptors[options_.self] = acceptor_.kept().id;
    wanted = encode(with_us);
  } else {
    return;
  }
  proposer_ = std::make_unique<Proposer>(
      kFirstProposal + ++proposals_, kConfigurationRegister,
      [wanted = std::move(wanted)](const Accepted& current) {
        return current.empty() ? std::optional(wanted) : std::nullopt;
      },
      ballots_);
  proposer_->begin(in, now);
}

void Node::run_proposer(Time now) {
  if (!proposer_) return;
  if (const Request* const request = proposer_->take_request()) {
    const Request asked = *request;
    for (std::size_t node = 0; node < peers_.size(); ++node)
      if (node != options_.self) requests_.push_back({node, asked});
    if (acceptor_.is_serving()) receive(0, asked, now);
  }
  if (!proposer_ || !proposer_->is_done()) return;
  const auto agreed = decode_configuration(proposer_->result().value);
  proposer_.reset();
  if (!agreed || agreed->epoch == 0) return;
  ask_peers(Adopt{*agreed}, 0);
  learn(*agreed, now);
}

}  // namespace rdmc::store

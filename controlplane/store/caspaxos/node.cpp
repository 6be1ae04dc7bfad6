#include "controlplane/store/caspaxos/node.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "controlplane/view/messages.hpp"

namespace rdmc::store {
namespace {

/// The client number of the node itself, for its own requests.
constexpr Node::Client kSelf = 0;

/// This error is made in advance, because there may be no memory when it is needed.
const Error kReplaced{
    Errc::cancelled,
    "its place was given to another node: it can come back as a new one, without what it keeps"};

Durable with_id(Durable kept, const Id& fresh) {
  if (!kept.id) kept.id = fresh;
  return kept;
}

}  // namespace

Node::Node(const Options& options, Durable kept, Time now)
    : options_(options),
      acceptor_(with_id(std::move(kept), options.fresh)),
      ballots_(options.proposer, options.seed),
      peers_(options.nodes),
      known_(acceptor_.newest()),
      ask_at_(now) {
  if (!acceptor_.is_serving() && acceptor_.newest().epoch != 0) gathering_ = acceptor_.newest().epoch;
  // An operator may have forced this configuration just before the former life of the node ended. In that
  // case the node may have read the configuration from the file although the disk has not written it yet.
  if (acceptor_.newest().size() == 1) silent_until_ = acceptor_.everything();
}

const Configuration& Node::known() const {
  return known_.epoch > acceptor_.newest().epoch ? known_ : acceptor_.newest();
}

void Node::say(Client client, Reply reply) {
  reply.acceptor = acceptor_.kept().id;
  if (failure_) reply.known = {};  // The configuration may never have become durable.
  if (failure_ || !is_silent())
    replies_.push_back({client, std::move(reply)});
  else if (waiting_.size() <
           2 * kMostWaiting)  // If more answers wait, this one is dropped, and the client asks again.
    waiting_.push_back({client, std::move(reply), silent_until_});
}

void Node::refuse(Client client, std::uint64_t id, Refused reason, std::string text) {
  ++counters_.refused;
  say(client, {.id = id, .known = known(), .body = Refusal{reason, {}, std::move(text)}});
}

/// Sends the answer. If the state that it reports is not durable yet, the answer waits until the state is
/// durable.
void Node::serve(Client client, std::uint64_t id, Acceptor::Answer answer) {
  Reply reply{.id = id, .body = std::move(answer.body)};
  if (const auto* const refusal = std::get_if<Refusal>(&reply.body)) {
    ++counters_.refused;
    if (refusal->reason == Refused::promised)
      ++counters_.overtaken;
    else
      reply.known = known();
    if (refusal->reason == Refused::behind) {
      behind_ = true;
      ask_every_ = kAsk;
    }
  }
  if (answer.after <= synced_) return say(client, std::move(reply));
  waiting_.push_back({client, std::move(reply), answer.after});
}

void Node::receive(Client client, Request request, Time now) {
  ++counters_.requests;
  const std::uint64_t id = request.id;
  if (std::holds_alternative<StateRequest>(request.body)) {
    say(client, {.id = id, .known = known(), .body = state()});
    return flush(now);
  }
  if (failure_) return refuse(client, id, Refused::not_serving, state().text);
  if (waiting_.size() >= kMostWaiting && client != kSelf)
    return refuse(client, id, Refused::busy, "too much waits for the node's disk");
  if (const auto* const query = std::get_if<Query>(&request.body)) {
    serve(client, id, acceptor_.query(*query));
  } else if (const auto* const list = std::get_if<ListQuery>(&request.body)) {
    serve(client, id, acceptor_.list(*list));
  } else if (const auto* const prepare = std::get_if<Prepare>(&request.body)) {
    serve(client, id, acceptor_.prepare(*prepare));
  } else if (auto* const accept = std::get_if<Accept>(&request.body)) {
    receive_accept(client, id, std::move(*accept));
  } else if (const auto* const vote = std::get_if<Vote>(&request.body)) {
    if (known().epoch != 0)
      refuse(client, id, Refused::not_serving, "the node knows of a configuration");
    else
      serve(client, id, acceptor_.vote(vote->configuration));
  } else if (const auto* const adopt = std::get_if<Adopt>(&request.body)) {
    learn(adopt->configuration, now);
    say(client, {.id = id, .body = Done{}});
  } else if (const auto* const transfer = std::get_if<StateTransfer>(&request.body)) {
    learn(transfer->configuration, now);
    serve(client, id, acceptor_.contents_for(transfer->configuration));
  } else if (const auto* const survive = std::get_if<Survive>(&request.body)) {
    receive_survive(client, id, survive->force, now);
  }
  flush(now);
}

/// Accepts a proposal if its value is valid. The value of a group's register must be a view. The value of the
/// configuration register must be a configuration later than the current one.
void Node::receive_accept(Client client, std::uint64_t id, Accept accept) {
  const bool is_group = accept.name != kConfigurationRegister;
  Hint hint{accept.name, 0};
  if (is_group) {
    const auto view = view::decode_view(accept.proposal.value);
    if (!view) return refuse(client, id, Refused::out_of_range, "that is no view");
    hint.epoch = value_of(view->epoch);
  } else if (const auto next = decode_configuration(accept.proposal.value);
             !next || next->epoch <= accept.proposal.ballot.epoch) {
    return refuse(client, id, Refused::out_of_range, "that is no later configuration");
  }
  Acceptor::Answer answer = acceptor_.accept(std::move(accept));
  if (std::holds_alternative<Done>(answer.body)) {
    ++counters_.accepted;
    if (is_group) hints_.push_back(std::move(hint));
  }
  serve(client, id, std::move(answer));
}

void Node::hear(std::size_t node, const Reply& reply, Time now) {
  if (failure_ || node >= peers_.size()) return;
  Peer& peer = peers_[node];
  peer.id = reply.acceptor;
  if (const auto* const state = std::get_if<NodeState>(&reply.body)) {
    if (peer.state != *state) ask_every_ = kAsk;
    peer.state = *state;
    peer.heard = true;
  }
  learn(reply.known, now);
  if (std::holds_alternative<NodeState>(reply.body)) reconsider_vote(reply.acceptor, *peer.state, now);
  if (proposer_) proposer_->hear(reply, now);
  if (std::holds_alternative<Contents>(reply.body)) gather(reply, now);
  if (candidate_) count_vote(node, reply, now);
  if (std::holds_alternative<NodeState>(reply.body)) {
    look_for_first_configuration(now);
    if (naming_ && reply.id == naming_->asked) {
      if (peer.state->stage != Stage::failed && peer.state->stage != Stage::replaced)
        naming_->alive.insert(node);
      decide_on_naming(now);
    }
  }
  flush(now);
}

/// True if this node does not need to exchange information with the other nodes. A serving node still needs
/// it while the configuration has fewer acceptors than the store has nodes. Such a configuration exists after
/// an operator has named a surviving node, and another node may not know the configuration yet.
bool Node::is_settled() const {
  return failure_ || acceptor_.is_replaced() ||
         (acceptor_.is_serving() && !behind_ && known().epoch == acceptor_.newest().epoch &&
          known().size() == options_.nodes);
}

void Node::tick(Time now) {
  if (failure_) return;
  if (!is_settled() && now >= ask_at_) look_around(now);
  if (proposer_) proposer_->tick(now);
  propose_configuration(now);
  if (naming_) {
    ask_alive(now);
    decide_on_naming(now);
  }
  flush(now);
}

Time Node::next_deadline() const {
  if (failure_) return Time::never();
  Time next = proposer_ ? proposer_->next_deadline() : Time::never();
  if (!is_settled()) next = std::min(next, ask_at_);
  if (!proposer_) next = std::min(next, complete_at());
  if (naming_) next = std::min({next, naming_->ask_at, naming_->until});
  return next;
}

void Node::synced(std::uint64_t sequence, Time now) {
  if (failure_) return;
  const bool was_silent = is_silent();
  synced_ = sequence;
  acceptor_.synced(sequence);
  if (was_silent && !is_silent()) look_around(now);
  count_own_vote(now);
  flush(now);
}

void Node::fail(Error cause) noexcept {
  failure_ = std::move(cause);
  waiting_.clear();
  replies_.clear();
  requests_.clear();
  hints_.clear();
  proposer_.reset();
  candidate_.reset();
  naming_.reset();
}

/// Sends the answers that may be sent now. Answers to this node's own requests are handled here.
void Node::flush(Time now) {
  std::erase_if(waiting_, [this](Waiting& waiting) {
    if (waiting.after > synced_ || is_silent()) return false;
    say(waiting.client, std::move(waiting.reply));
    return true;
  });
  const bool sealed = acceptor_.is_serving() && acceptor_.is_sealed();
  sealed_since_ = sealed ? std::min(sealed_since_, now) : Time::never();
  run_proposer(now);
  std::vector<Reply> own;
  std::erase_if(replies_, [&](ToClient& to) {
    if (to.client != kSelf) return false;
    own.push_back(std::move(to.reply));
    return true;
  });
  for (const Reply& reply : own) hear(options_.self, reply, now);
}

void Node::ask_peers(const decltype(Request::body)& body, std::uint64_t id) {
  if (is_silent()) return;
  for (std::size_t node = 0; node < peers_.size(); ++node)
    if (node != options_.self) requests_.push_back({node, Request{id, body}});
}

Stage Node::stage() const {
  if (failure_) return Stage::failed;
  if (acceptor_.is_replaced()) return Stage::replaced;
  if (acceptor_.is_serving()) return Stage::serving;
  return acceptor_.newest().epoch == 0 ? Stage::fresh : Stage::joining;
}

NodeState Node::state() const {
  NodeState state{.stage = stage(), .epoch = acceptor_.kept().active.epoch, .vote = acceptor_.kept().vote};
  switch (state.stage) {
    case Stage::failed: state.text = "it can keep nothing any more: " + failure_->what; break;
    case Stage::replaced: state.text = kReplaced.what; break;
    case Stage::serving: break;
    case Stage::joining: state.text = "it gathers the state from the other nodes"; break;
    case Stage::fresh:
      state.text = known_.epoch == 0 ? "a store begins when all its nodes are there for the first time"
                                     : "it has no state, and asks the other nodes to be let in";
      break;
  }
  if (state.stage != Stage::failed && state.stage != Stage::serving && has_lost_majority())
    state.text = "a majority of its nodes has lost its state: name the survivor (rdmc_control survivor)";
  return state;
}

const Error* Node::ending() const noexcept {
  if (failure_) return &*failure_;
  return acceptor_.is_replaced() ? &kReplaced : nullptr;
}

std::vector<Node::ToClient> Node::take_replies() {
  return std::exchange(replies_, {});
}

std::vector<Node::ToPeer> Node::take_requests() {
  return std::exchange(requests_, {});
}

std::vector<Acceptor::Write> Node::take_writes() {
  std::vector<Acceptor::Write> writes;
  if (failure_) return writes;
  if (auto write = acceptor_.take_write()) writes.push_back(std::move(*write));
  return writes;
}

std::vector<Hint> Node::take_hints() {
  return std::exchange(hints_, {});
}

}  // namespace rdmc::store

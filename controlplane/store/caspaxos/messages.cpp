#include "controlplane/store/caspaxos/messages.hpp"

#include <utility>

// The generated code causes warnings at this project's warning level, so they are turned off for it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "controlplane/store/caspaxos/caspaxos.pb.h"
#pragma GCC diagnostic pop

namespace rdmc::store {
namespace {

constexpr std::size_t kMaxTextBytes = 512;

template <typename Wire>
Bytes serialize(const Wire& from) {
  Bytes bytes(from.ByteSizeLong());
  from.SerializeToArray(bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

std::unexpected<Error> malformed(const std::string& what) {
  return fail(Errc::protocol_error, "sent " + what + " about stored views");
}

template <typename Wire>
Result<Wire> parse(std::span<const std::byte> bytes) {
  Wire to;
  if (!to.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return malformed("a malformed message");
  return to;
}

void store(wire::Id& to, const Id& id) {
  to.set_high(id.high);
  to.set_low(id.low);
}
Id load(const wire::Id& from) {
  return {from.high(), from.low()};
}

void store(wire::Ballot& to, const Ballot& ballot) {
  to.set_epoch(ballot.epoch);
  to.set_counter(ballot.counter);
  store(*to.mutable_proposer(), ballot.proposer);
}
Ballot load(const wire::Ballot& from) {
  return {from.epoch(), from.counter(), load(from.proposer())};
}

void store(wire::Configuration& to, const Configuration& configuration) {
  to.set_epoch(configuration.epoch);
  for (const Id& id : configuration.acceptors) store(*to.add_acceptors(), id);
  to.set_from_epoch(configuration.from_epoch);
  for (const Id& id : configuration.from) store(*to.add_from(), id);
}

/// Reads a configuration. Rejects, for example, a configuration that contains an acceptor twice or has no
/// acceptor.
Result<Configuration> load(const wire::Configuration& from) {
  Configuration to{.epoch = from.epoch(), .from_epoch = from.from_epoch()};
  for (const wire::Id& id : from.acceptors()) to.acceptors.push_back(load(id));
  for (const wire::Id& id : from.from()) to.from.push_back(load(id));
  for (const std::vector<Id>* const ids : {&to.acceptors, &to.from}) {
    if (ids->size() > kMostNodes) return malformed("a configuration of too many nodes");
    for (const Id& id : *ids)
      if (id && std::ranges::count(*ids, id) != 1)
        return malformed("a configuration with one acceptor twice");
  }
  if (to.epoch == 0 ? to != Configuration{} : to.size() == 0) return malformed("a configuration of nobody");
  if (to.epoch > kMaxEpoch) return malformed("a configuration of an epoch that nobody reaches");
  if (to.epoch != 0 && to.from_epoch >= to.epoch)
    return malformed("a configuration that follows a later one");
  return to;
}

bool is_name(const std::string& name) {
  return name.size() <= kMaxRegisterNameBytes;
}
bool is_group(const std::string& name) {
  return !name.empty() && is_name(name);
}

void store(wire::Accepted& to, const Accepted& accepted) {
  store(*to.mutable_ballot(), accepted.ballot);
  to.set_value(accepted.value.data(), accepted.value.size());
}
Result<Accepted> load(const wire::Accepted& from) {
  if (from.value().size() > kMaxValueBytes) return malformed("a value that is too long");
  const auto value = std::as_bytes(std::span(from.value()));
  Accepted to{load(from.ballot()), {value.begin(), value.end()}};
  if (to.empty() && to != Accepted{}) return malformed("a value without a ballot");
  return to;
}

void store(wire::Register& to, const std::string& name, const Accepted& accepted) {
  to.set_name(name);
  store(*to.mutable_accepted(), accepted);
}

template <typename Repeated>
Result<Registers> load_all(const Repeated& from, bool (&is_proper)(const std::string&)) {
  Registers to;
  for (const wire::Register& one : from) {
    auto accepted = load(one.accepted());
    if (!accepted) return std::unexpected(accepted.error());
    if (!is_proper(one.name())) return malformed("a register without a proper name");
    if (!to.emplace(one.name(), std::move(*accepted)).second) return malformed("a register twice");
  }
  return to;
}

// Function objects that convert the body of a request or of a reply to its protobuf message.
struct StoreRequest {
  wire::Request& to;
  void operator()(const StateRequest&) const { to.set_state(true); }
  void operator()(const Query& query) const {
    to.mutable_query()->set_name(query.name);
    to.mutable_query()->set_epoch(query.epoch);
  }
  void operator()(const ListQuery& list) const { to.mutable_list()->set_epoch(list.epoch); }
  void operator()(const Prepare& prepare) const {
    to.mutable_prepare()->set_name(prepare.name);
    store(*to.mutable_prepare()->mutable_ballot(), prepare.ballot);
  }
  void operator()(const Accept& accept) const { store(*to.mutable_accept(), accept.name, accept.proposal); }
  void operator()(const Watch& watch) const { to.set_watch(watch.name); }
  void operator()(const Vote& vote) const { store(*to.mutable_vote(), vote.configuration); }
  void operator()(const Adopt& adopt) const { store(*to.mutable_adopt(), adopt.configuration); }
  void operator()(const StateTransfer& transfer) const {
    store(*to.mutable_state_transfer(), transfer.configuration);
  }
  void operator()(const Survive& survive) const { to.mutable_survive()->set_force(survive.force); }
};

struct StoreReply {
  wire::Reply& to;
  void operator()(const Refusal& refusal) const {
    to.mutable_refused()->set_reason(value_of(refusal.reason));
    store(*to.mutable_refused()->mutable_promised(), refusal.promised);
    to.mutable_refused()->set_text(refusal.text.substr(0, kMaxTextBytes));
  }
  void operator()(const Accepted& accepted) const { store(*to.mutable_accepted(), accepted); }
  void operator()(const Done&) const { to.set_done(true); }
  void operator()(const Contents& contents) const {
    to.mutable_contents()->set_epoch(contents.epoch);
    for (const auto& [name, accepted] : contents.registers)
      store(*to.mutable_contents()->add_registers(), name, accepted);
  }
  void operator()(const NodeState& state) const {
    to.mutable_state()->set_stage(value_of(state.stage));
    to.mutable_state()->set_epoch(state.epoch);
    store(*to.mutable_state()->mutable_vote(), state.vote);
    to.mutable_state()->set_text(state.text.substr(0, kMaxTextBytes));
  }
  void operator()(const Hint& hint) const {
    to.mutable_hint()->set_name(hint.name);
    to.mutable_hint()->set_epoch(hint.epoch);
  }
};

// Functions that convert a protobuf message back to the body of a request or of a reply.
Result<decltype(Request::body)> load_body(const wire::Request& from) {
  const auto named = [](const std::string& name, bool proper, auto body) -> Result<decltype(Request::body)> {
    if (!proper || !is_name(name)) return malformed("a register without a proper name");
    return body;
  };
  const auto configured = [](const wire::Configuration& wire, auto make) -> Result<decltype(Request::body)> {
    auto configuration = load(wire);
    if (!configuration) return std::unexpected(configuration.error());
    if (configuration->epoch == 0) return malformed("no configuration where one was due");
    return make(std::move(*configuration));
  };
  switch (from.body_case()) {
    case wire::Request::kState: return StateRequest{};
    case wire::Request::kSurvive: return Survive{from.survive().force()};
    case wire::Request::kList: return ListQuery{from.list().epoch()};
    case wire::Request::kQuery:
      return named(from.query().name(), true, Query{from.query().name(), from.query().epoch()});
    case wire::Request::kPrepare: {
      const Ballot ballot = load(from.prepare().ballot());
      if (ballot.epoch == 0) return malformed("a ballot of no epoch");
      return named(from.prepare().name(), true, Prepare{from.prepare().name(), ballot});
    }
    case wire::Request::kAccept: {
      auto proposal = load(from.accept().accepted());
      if (!proposal) return std::unexpected(proposal.error());
      if (proposal->empty()) return malformed("a ballot of no epoch");
      return named(from.accept().name(), true, Accept{from.accept().name(), std::move(*proposal)});
    }
    case wire::Request::kWatch: return named(from.watch(), is_group(from.watch()), Watch{from.watch()});
    case wire::Request::kVote:
      return configured(from.vote(), [](Configuration&& one) { return Vote{std::move(one)}; });
    case wire::Request::kAdopt:
      return configured(from.adopt(), [](Configuration&& one) { return Adopt{std::move(one)}; });
    case wire::Request::kStateTransfer:
      return configured(from.state_transfer(),
                        [](Configuration&& one) { return StateTransfer{std::move(one)}; });
    case wire::Request::BODY_NOT_SET: break;
  }
  return malformed("something unknown");
}

Result<decltype(Reply::body)> load_body(const wire::Reply& from) {
  switch (from.body_case()) {
    case wire::Reply::kRefused:
      if (from.refused().reason() >= kRefusals || from.refused().text().size() > kMaxTextBytes) break;
      return Refusal{Refused{static_cast<std::uint8_t>(from.refused().reason())},
                     load(from.refused().promised()), from.refused().text()};
    case wire::Reply::kAccepted: {
      auto accepted = load(from.accepted());
      if (!accepted) return std::unexpected(accepted.error());
      return std::move(*accepted);
    }
    case wire::Reply::kDone: return Done{};
    case wire::Reply::kContents: {
      auto registers = load_all(from.contents().registers(), is_group);
      if (!registers) return std::unexpected(registers.error());
      return Contents{from.contents().epoch(), std::move(*registers)};
    }
    case wire::Reply::kState: {
      auto vote = load(from.state().vote());
      if (!vote) return std::unexpected(vote.error());
      if (from.state().stage() >= kStages || from.state().text().size() > kMaxTextBytes) break;
      return NodeState{Stage{static_cast<std::uint8_t>(from.state().stage())}, from.state().epoch(),
                       std::move(*vote), from.state().text()};
    }
    case wire::Reply::kHint:
      if (!is_group(from.hint().name())) break;
      return Hint{from.hint().name(), from.hint().epoch()};
    case wire::Reply::BODY_NOT_SET: break;
  }
  return malformed("an answer that nobody understands");
}

}  // namespace

Bytes encode(const Request& request) {
  wire::Request to;
  to.set_id(request.id);
  std::visit(StoreRequest{to}, request.body);
  return serialize(to);
}

Result<Request> decode_request(std::span<const std::byte> bytes) {
  const auto from = parse<wire::Request>(bytes);
  if (!from) return std::unexpected(from.error());
  auto body = load_body(*from);
  if (!body) return std::unexpected(body.error());
  return Result<Request>(std::in_place, from->id(), std::move(*body));
}

Bytes encode(const Reply& reply) {
  wire::Reply to;
  to.set_id(reply.id);
  store(*to.mutable_acceptor(), reply.acceptor);
  if (reply.known.epoch != 0) store(*to.mutable_known(), reply.known);
  std::visit(StoreReply{to}, reply.body);
  return serialize(to);
}

Result<Reply> decode_reply(std::span<const std::byte> bytes) {
  const auto from = parse<wire::Reply>(bytes);
  if (!from) return std::unexpected(from.error());
  auto known = load(from->known());
  if (!known) return std::unexpected(known.error());
  auto body = load_body(*from);
  if (!body) return std::unexpected(body.error());
  return Result<Reply>(std::in_place, from->id(), load(from->acceptor()), std::move(*known),
                       std::move(*body));
}

Bytes encode(const Configuration& configuration) {
  wire::Configuration to;
  store(to, configuration);
  return serialize(to);
}

Result<Configuration> decode_configuration(std::span<const std::byte> bytes) {
  const auto from = parse<wire::Configuration>(bytes);
  if (!from) return std::unexpected(from.error());
  return load(*from);
}

Bytes encode(const JournalEntry& entry) {
  wire::Kept to;
  to.set_whole(entry.whole);
  const Durable& kept = entry.kept;
  if (kept.id) store(*to.mutable_id(), kept.id);
  if (kept.active.epoch != 0) store(*to.mutable_active(), kept.active);
  if (kept.next.epoch != 0) store(*to.mutable_next(), kept.next);
  if (kept.vote.epoch != 0) store(*to.mutable_vote(), kept.vote);
  to.set_ceiling(kept.ceiling);
  for (const auto& [name, accepted] : kept.registers) store(*to.add_registers(), name, accepted);
  return serialize(to);
}

Result<JournalEntry> decode_journal_entry(std::span<const std::byte> bytes) {
  const auto from = parse<wire::Kept>(bytes);
  if (!from) return std::unexpected(from.error());
  JournalEntry to{.whole = from->whole(), .kept = {.id = load(from->id()), .ceiling = from->ceiling()}};
  for (const auto& [wire, kept] :
       {std::pair(&from->active(), &to.kept.active), std::pair(&from->next(), &to.kept.next),
        std::pair(&from->vote(), &to.kept.vote)}) {
    auto configuration = load(*wire);
    if (!configuration) return std::unexpected(configuration.error());
    *kept = std::move(*configuration);
  }
  auto registers = load_all(from->registers(), is_name);
  if (!registers) return std::unexpected(registers.error());
  to.kept.registers = std::move(*registers);
  return to;
}

void apply(JournalEntry entry, Durable& to) {
  if (entry.whole) {
    to = std::move(entry.kept);
    return;
  }
  Durable& kept = entry.kept;
  if (kept.id) to.id = kept.id;
  if (kept.active.epoch != 0) to.active = std::move(kept.active);
  if (kept.next.epoch != 0) to.next = std::move(kept.next);
  if (kept.vote.epoch != 0) to.vote = std::move(kept.vote);
  to.ceiling = std::max(to.ceiling, kept.ceiling);
  for (auto& [name, accepted] : kept.registers) to.registers[name] = std::move(accepted);
}

}  // namespace rdmc::store

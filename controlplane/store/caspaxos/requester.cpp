#include "controlplane/store/caspaxos/requester.hpp"

#include <algorithm>
#include <utility>

namespace rdmc::store {
namespace {

/// The pause between two state requests to nodes that do not serve. Such requests are sent while an operation
/// waits for an answer.
constexpr Duration kAskAgain = milliseconds(20);

/// Returns the node's reason for not serving, if the reply contains a reason.
std::string complaint_of(const Reply& reply) {
  if (const auto* const state = std::get_if<NodeState>(&reply.body)) return state->text;
  if (const auto* const refusal = std::get_if<Refusal>(&reply.body)) return refusal->text;
  return {};
}

}  // namespace

Requester::Requester(const Options& options)
    : options_(options), ballots_(options.self, options.seed), links_(options.nodes) {}

Requester::Operation& Requester::add(Time now) {
  Operation& operation = operations_[++last_operation_];
  operation.deadline = now + options_.answer_within;
  ask_again_soon(now);
  return operation;
}

/// True if this node must be asked for its state again. The reason why a node does not serve can change, and
/// people need to read the newest reason.
bool Requester::is_to_be_asked_again(const Link& link) const {
  return link.up && (configuration_.epoch == 0 || !link.complaint.empty());
}

void Requester::ask_again_soon(Time now) {
  if (ask_again_ == Time::never() && !operations_.empty() &&
      std::ranges::any_of(links_, [this](const Link& link) { return is_to_be_asked_again(link); }))
    ask_again_ = now + kAskAgain;
}

std::uint64_t Requester::change(const std::string& name, Proposer::Change change, Time now) {
  Operation& operation = add(now);
  operation.proposer = std::make_unique<Proposer>(last_operation_, name, std::move(change), ballots_);
  if (configuration_.epoch != 0) operation.proposer->begin(configuration_, now);
  const std::uint64_t number = last_operation_;
  pump(now);
  return number;
}

std::uint64_t Requester::list(Time now) {
  Operation& operation = add(now);
  operation.listing = std::make_unique<Listing>(last_operation_);
  if (configuration_.epoch != 0) operation.listing->begin(configuration_, now);
  const std::uint64_t number = last_operation_;
  pump(now);
  return number;
}

void Requester::ask_state(std::size_t node) {
  requests_.push_back({node, Request{0, StateRequest{}}});
}

void Requester::link_up(std::size_t node, Time now) {
  links_[node] = {.up = true};
  for (auto& [number, operation] : operations_) operation.failed.erase(node);
  ask_state(node);
  ask_again_soon(now);
}

void Requester::link_lost(std::size_t node) {
  links_[node] = {};
}

void Requester::link_failed(std::size_t node, const Error& cause, Time) {
  links_[node] = {};
  std::vector<std::uint64_t> hopeless;
  for (auto& [number, operation] : operations_) {
    operation.failed.insert(node);
    if (options_.nodes - operation.failed.size() < majority()) hopeless.push_back(number);
  }
  for (const std::uint64_t number : hopeless) end(number, std::unexpected(cause));
}

void Requester::hear(std::size_t node, const Reply& reply, Time now) {
  Link& link = links_[node];
  const bool is_new = link.acceptor != reply.acceptor;
  link.acceptor = reply.acceptor;
  link.complaint = complaint_of(reply);
  if (reply.known.epoch != 0) link.known = reply.known;
  learn(reply.known, now);
  if (const auto found = operations_.find(Proposer::number_of(reply.id)); found != operations_.end()) {
    if (found->second.proposer) found->second.proposer->hear(reply, now);
    if (found->second.listing && found->second.listing->hear(reply, now))
      found->second.deadline = now + options_.answer_within;
  }
  // The node can get the current requests only now, because its acceptor's id was not known before.
  if (is_new)
    for (auto& [number, operation] : operations_) {
      const Request* const request = operation.proposer  ? operation.proposer->request_for(link.acceptor)
                                     : operation.listing ? operation.listing->request_for(link.acceptor)
                                                         : nullptr;
      if (request != nullptr) requests_.push_back({node, *request});
    }
  ask_again_soon(now);
  pump(now);
}

/// True if this node belongs to another store. Such a node is part of a configuration that is not newer than
/// the known one, but its acceptor is not in the known configuration. It has begun a new store, without
/// knowledge of the known configuration.
bool Requester::is_of_another_store(const Link& link) const {
  return link.known.epoch != 0 && link.known.epoch <= configuration_.epoch &&
         link.known.contains(link.acceptor) && !configuration_.contains(link.acceptor);
}

void Requester::learn(const Configuration& known, Time now) {
  if (known.epoch <= configuration_.epoch) return;
  configuration_ = known;
  for (auto& [number, operation] : operations_) {
    if (operation.proposer) operation.proposer->begin(configuration_, now);
    if (operation.listing) operation.listing->begin(configuration_, now);
  }
}

void Requester::tick(Time now) {
  std::vector<std::uint64_t> late;
  for (auto& [number, operation] : operations_) {
    if (operation.deadline <= now) late.push_back(number);
    if (operation.proposer) operation.proposer->tick(now);
    if (operation.listing) operation.listing->tick(now);
  }
  for (const std::uint64_t number : late) end(number, std::unexpected(lateness()));
  if (now >= ask_again_) {
    for (std::size_t node = 0; node < links_.size(); ++node)
      if (is_to_be_asked_again(links_[node])) ask_state(node);
    ask_again_ = Time::never();
    ask_again_soon(now);
  }
  pump(now);
}

Time Requester::next_deadline() const {
  Time next = operations_.empty() ? Time::never() : ask_again_;
  for (const auto& [number, operation] : operations_) {
    next = std::min(next, operation.deadline);
    if (operation.proposer) next = std::min(next, operation.proposer->next_deadline());
    if (operation.listing) next = std::min(next, operation.listing->next_deadline());
  }
  return next;
}

/// Takes the requests of all operations that must be sent, and ends the operations that are done.
void Requester::pump(Time now) {
  std::vector<std::uint64_t> done;
  do {
    done.clear();
    // The loop also handles operations that begin during the loop, because their numbers are higher.
    for (auto entry = operations_.begin(); entry != operations_.end(); ++entry) {
      Operation& operation = entry->second;
      const Request* const request = operation.proposer  ? operation.proposer->take_request()
                                     : operation.listing ? operation.listing->take_request()
                                                         : nullptr;
      if (request != nullptr)
        for (std::size_t node = 0; node < links_.size(); ++node)
          if (links_[node].up && configuration_.contains(links_[node].acceptor))
            requests_.push_back({node, *request});
      if (operation.listing && operation.listing->is_done()) {
        operation.registers = operation.listing->known();
        operation.rest = operation.listing->unknown();
        operation.listing.reset();
        read_rest(entry->first, operation, now);
      }
      if (operation.proposer ? operation.proposer->is_done() : !operation.listing && operation.readings == 0)
        done.push_back(entry->first);
    }
    for (const std::uint64_t number : done)
      if (const auto found = operations_.find(number); found != operations_.end())
        succeed(number, found->second, now);
  } while (!done.empty());
}

/// For a list: reads each register on which no majority agreed. At most kMostReadings registers are read at
/// the same time, so that each reading ends in time.
void Requester::read_rest(std::uint64_t number, Operation& operation, Time now) {
  operation.deadline = now + options_.answer_within;
  for (; operation.readings < kMostReadings && !operation.rest.empty(); ++operation.readings) {
    Operation& reading = add(now);
    reading.list = number;
    reading.proposer =
        std::make_unique<Proposer>(last_operation_, std::move(operation.rest.back()), nullptr, ballots_);
    reading.proposer->begin(configuration_, now);
    operation.rest.pop_back();
  }
}

void Requester::succeed(std::uint64_t number, Operation& operation, Time now) {
  if (!operation.proposer) return end(number, Outcome(std::move(operation.registers)));
  Accepted result = operation.proposer->result();
  if (operation.list) {
    if (const auto list = operations_.find(*operation.list); list != operations_.end()) {
      // If nothing was ever agreed on a register, the register does not exist.
      if (!result.empty()) list->second.registers[operation.proposer->name()] = std::move(result);
      --list->second.readings;
      read_rest(list->first, list->second, now);
      operations_.erase(number);
      return;
    }
  }
  end(number, Outcome(std::move(result)));
}

void Requester::end(std::uint64_t number, Result<Outcome> outcome) {
  auto ended = operations_.extract(number);
  if (ended.empty()) return;
  if (ended.mapped().list) {
    if (!outcome) end(*ended.mapped().list, std::unexpected(outcome.error()));
    return;
  }
  finished_.push_back({number, std::move(outcome)});
}

Error Requester::lateness() const {
  const auto others =
      std::ranges::count_if(links_, [this](const Link& link) { return is_of_another_store(link); });
  if (static_cast<std::size_t>(others) >= majority())
    return {Errc::peer_failed,
            "another store answers at these addresses: all nodes have lost their state and have begun anew; "
            "start the programs that used the former store anew, too"};
  std::string why;
  for (const Link& link : links_)
    if (!link.complaint.empty()) why = link.complaint;
  for (const auto& [number, operation] : operations_)
    if (why.empty() && operation.proposer) why = operation.proposer->complaint();
  if (!why.empty()) return {Errc::peer_failed, "the store does not serve: " + why};
  return {Errc::timed_out, "no majority of the store's nodes has answered in time"};
}

std::vector<Requester::ToNode> Requester::take_requests() {
  return std::exchange(requests_, {});
}

std::vector<Requester::Finished> Requester::take_finished() {
  return std::exchange(finished_, {});
}

}  // namespace rdmc::store

#include "controlplane/store/caspaxos/acceptor.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace rdmc::store {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
constexpr Id kHighestId{kMost, kMost};
/// When more than this number of bytes has been appended to the journal, an entry with the whole state
/// replaces the journal.
constexpr std::size_t kJournalSlack = 256 << 10;

Acceptor::Answer refuse(Refused reason, std::string text) {
  return {Refusal{reason, {}, std::move(text)}, 0};
}

/// The epochs are divided into runs of kForcedEpochs epochs, and each run belongs to one node. Returns the
/// first epoch of an unused run of the node `self`.
std::uint64_t forced_epoch(std::uint64_t newest, std::size_t self, std::uint64_t earliest_run) {
  std::uint64_t run = std::max(newest / Acceptor::kForcedEpochs + 2, earliest_run);
  while (run % kMostNodes != self) ++run;
  return run * Acceptor::kForcedEpochs;
}

}  // namespace

Acceptor::Acceptor(Durable kept) : kept_(std::move(kept)) {
  floor_ = {kept_.active.epoch, kept_.ceiling, kHighestId};
  for (const auto& [name, accepted] : kept_.registers) kept_bytes_ += accepted.value.size();
}

/// Returns the reason why the acceptor does not answer in this epoch. Returns nullopt if it answers.
std::optional<Refusal> Acceptor::refusal(std::uint64_t epoch, const std::string& name) const {
  const Configuration& known = newest();
  if (known.epoch == 0) return Refusal{Refused::not_serving, {}, "the node has no state yet"};
  if (epoch < known.epoch) return Refusal{Refused::stale};
  if (epoch > known.epoch) return Refusal{Refused::behind};
  if (kept_.next.epoch != 0) return Refusal{Refused::not_serving, {}, "the node gathers the state"};
  if (name != kConfigurationRegister && is_sealed()) return Refusal{Refused::sealed};
  return std::nullopt;
}

std::optional<Refusal> Acceptor::refusal(const Ballot& ballot, const std::string& name) const {
  if (auto refused = refusal(ballot.epoch, name)) return refused;
  const Ballot before = promised(name);
  if (ballot < before) return Refusal{Refused::promised, before};
  if (ballot.counter > kept_.ceiling && ballot.counter - kept_.ceiling > kMostLeap)
    return Refusal{Refused::out_of_range, {}, "a ballot's counter leaps"};
  return std::nullopt;
}

Ballot Acceptor::promised(const std::string& name) const {
  Ballot highest = floor_;
  if (const auto found = promises_.find(name); found != promises_.end())
    highest = std::max(highest, found->second);
  if (const auto found = kept_.registers.find(name); found != kept_.registers.end())
    highest = std::max(highest, found->second.ballot);
  return highest;
}

/// Raises the ceiling if it is lower than `counter`. A promise up to the ceiling survives a restart without a
/// write for this promise.
void Acceptor::reserve(std::uint64_t counter) {
  if (counter <= kept_.ceiling) return;
  kept_.ceiling = counter > kMost - kCeilingStep ? kMost : counter + kCeilingStep;
  head_dirty_ = true;
  head_written_ = next_write_;
}

void Acceptor::remember_promise(const std::string& name, const Ballot& ballot) {
  promises_[name] = ballot;
  if (promises_.size() <= kMostPromises) return;
  for (const auto& [any, promise] : promises_) floor_ = std::max(floor_, promise);
  promises_.clear();
}

std::uint64_t Acceptor::durable_after(const std::string& name) const {
  const auto found = written_.find(name);
  return std::max(head_written_, found == written_.end() ? 0 : found->second);
}

/// True if the limits allow this value. The next configuration is always allowed, so that a full store can
/// still replace a lost node.
bool Acceptor::has_room(const std::string& name, const Bytes& value) const {
  if (name == kConfigurationRegister) return true;
  const auto found = kept_.registers.find(name);
  const std::size_t before = found == kept_.registers.end() ? 0 : found->second.value.size();
  return kept_bytes_ - before + value.size() <= kMostKeptBytes &&
         (found != kept_.registers.end() || kept_.registers.size() < kMostRegisters);
}

Acceptor::Answer Acceptor::query(const Query& query) const {
  if (auto refused = refusal(query.epoch, query.name)) return {std::move(*refused), 0};
  const auto found = kept_.registers.find(query.name);
  return {found == kept_.registers.end() ? Accepted{} : found->second, durable_after(query.name)};
}

Acceptor::Answer Acceptor::list(const ListQuery& query) const {
  // The name "any" stands for any group, because the registers of all groups are refused for the same
  // reasons.
  if (auto refused = refusal(query.epoch, "any")) return {std::move(*refused), 0};
  return {Contents{kept_.active.epoch, contents()}, everything()};
}

Acceptor::Answer Acceptor::prepare(const Prepare& prepare) {
  if (auto refused = refusal(prepare.ballot, prepare.name)) return {std::move(*refused), 0};
  reserve(prepare.ballot.counter);
  remember_promise(prepare.name, prepare.ballot);
  const auto found = kept_.registers.find(prepare.name);
  return {found == kept_.registers.end() ? Accepted{} : found->second, durable_after(prepare.name)};
}

Acceptor::Answer Acceptor::accept(Accept accept) {
  auto& [name, proposal] = accept;
  if (auto refused = refusal(proposal.ballot, name)) return {std::move(*refused), 0};
  if (!has_room(name, proposal.value)) return refuse(Refused::full, "the store keeps as much as it may");
  reserve(proposal.ballot.counter);
  Accepted& kept = kept_.registers[name];
  if (kept.ballot == proposal.ballot)
    return {Done{}, durable_after(name)};  // The same proposal has arrived twice.
  kept_bytes_ += proposal.value.size() - kept.value.size();
  kept = std::move(proposal);
  promises_.erase(name);
  dirty_.insert(name);
  written_[name] = next_write_;
  return {Done{}, durable_after(name)};
}

Acceptor::Answer Acceptor::vote(const Configuration& configuration) {
  if (newest().epoch != 0) return refuse(Refused::not_serving, "the node is part of a configuration");
  if (!configuration.contains(kept_.id)) return refuse(Refused::not_serving, "the node has another id");
  if (configuration.epoch < kept_.vote.epoch ||
      (configuration.epoch == kept_.vote.epoch && configuration != kept_.vote))
    return refuse(Refused::stale, "the node has voted for another first configuration");
  if (configuration != kept_.vote) {
    kept_.vote = configuration;
    head_dirty_ = true;
    head_written_ = next_write_;
  }
  return {Done{}, head_written_};
}

Acceptor::Answer Acceptor::contents_for(const Configuration& next) const {
  const std::uint64_t mine = kept_.active.epoch;
  const bool before = mine == next.from_epoch && kept_.next.epoch >= next.epoch;
  if (mine == 0 || (mine != next.epoch && !before))
    return refuse(Refused::not_serving, "the node has no state of that epoch");
  return {Contents{mine, contents()}, everything()};
}

bool Acceptor::adopt(const Configuration& next) {
  if (next.epoch <= newest().epoch) return false;
  // If the acceptor has voted for another first configuration, it must not begin in this one.
  if (next.from.empty() && next != kept_.vote) return false;
  if (!has_state() && !next.contains(kept_.id)) {
    if (kept_.next.epoch != 0) {
      kept_.next = {};
      whole_dirty_ = true;
      head_written_ = next_write_;
    }
    return false;
  }
  kept_.next = next;
  head_dirty_ = true;
  head_written_ = next_write_;
  return true;
}

void Acceptor::activate(Registers registers) {
  kept_.active = std::exchange(kept_.next, {});
  kept_.registers = std::move(registers);
  kept_.ceiling = std::max(kept_.ceiling, kCeilingStep);
  kept_bytes_ = 0;
  for (const auto& [name, accepted] : kept_.registers) kept_bytes_ += accepted.value.size();
  promises_.clear();
  whole_dirty_ = true;
  head_written_ = next_write_;
}

void Acceptor::survive(std::size_t self, std::size_t nodes, std::uint64_t earliest_run) {
  Configuration alone{.epoch = forced_epoch(newest().epoch, self, earliest_run),
                      .acceptors = std::vector<Id>(nodes),
                      .from_epoch = kept_.active.epoch,
                      .from = {}};
  alone.acceptors[self] = kept_.id;
  alone.from = alone.acceptors;
  kept_.next = std::move(alone);
  activate(contents());
}

Registers Acceptor::contents() const {
  Registers all = kept_.registers;
  all.erase(kConfigurationRegister);
  return all;
}

std::optional<Acceptor::Write> Acceptor::take_write() {
  if (!is_dirty()) return std::nullopt;
  JournalEntry entry{.whole = whole_dirty_ || journal_bytes_ > whole_bytes_ + kJournalSlack};
  if (entry.whole) {
    entry.kept = kept_;
  } else {
    entry.kept = {kept_.id, kept_.active, kept_.next, kept_.vote, kept_.ceiling, {}};
    for (const std::string& name : dirty_) entry.kept.registers[name] = kept_.registers.at(name);
  }
  Write write{next_write_++, entry.whole, encode(entry)};
  if (write.whole) {
    whole_bytes_ = write.entry.size();
    journal_bytes_ = 0;
  }
  journal_bytes_ += write.entry.size();
  whole_dirty_ = head_dirty_ = false;
  dirty_.clear();
  return write;
}

void Acceptor::synced(std::uint64_t sequence) {
  std::erase_if(written_, [sequence](const auto& entry) { return entry.second <= sequence; });
}

}  // namespace rdmc::store

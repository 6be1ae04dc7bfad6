#include "controlplane/store/caspaxos/listing.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace rdmc::store {

void Listing::begin(const Configuration& configuration, Time now) {
  if (done_ || configuration == configuration_) return;
  configuration_ = configuration;
  request_.emplace(number_ << Proposer::kRoundBits | (++round_ & ((1 << Proposer::kRoundBits) - 1)),
                   ListQuery{configuration_.epoch});
  unsent_ = true;
  answers_.clear();
  deadline_ = now + patience_;
}

const Request* Listing::take_request() {
  return std::exchange(unsent_, false) ? &*request_ : nullptr;
}

const Request* Listing::request_for(const Id& acceptor) const {
  const bool open = !done_ && request_ && configuration_.contains(acceptor) && !answers_.contains(acceptor);
  return open ? &*request_ : nullptr;
}

bool Listing::hear(const Reply& reply, Time now) {
  if (done_ || !request_ || reply.id != request_->id || !configuration_.contains(reply.acceptor))
    return false;
  const auto* const contents = std::get_if<Contents>(&reply.body);
  if (contents == nullptr || contents->epoch != configuration_.epoch) return false;
  if (!answers_.emplace(reply.acceptor, contents->registers).second) return false;
  if (answers_.size() < configuration_.majority()) return true;
  compare();
  done_ = unknown_.empty() || answers_.size() == configuration_.size();
  deadline_ = std::min(deadline_, now + Proposer::kAgreeWithin);
  return true;
}

/// Sends the same request again if the time limit has passed and no majority has answered. Late answers to
/// the first request still count.
void Listing::tick(Time now) {
  if (done_ || now < deadline_) return;
  done_ = answers_.size() >= configuration_.majority();
  if (done_) return;
  patience_ = std::min(patience_ * 2, Proposer::kMostPatience);
  deadline_ = now + patience_;
  unsent_ = true;
}

void Listing::compare() {
  known_.clear();
  unknown_.clear();
  std::set<std::string> names;
  for (const auto& [acceptor, registers] : answers_)
    for (const auto& [name, accepted] : registers) names.insert(name);
  for (const std::string& name : names) {
    std::map<Ballot, std::size_t> alike;
    const Accepted* agreed = nullptr;
    bool absent = false;
    for (const auto& [acceptor, registers] : answers_) {
      const auto found = registers.find(name);
      const Ballot ballot = found == registers.end() ? Ballot{} : found->second.ballot;
      if (++alike[ballot] < configuration_.majority()) continue;
      absent = ballot.epoch == 0;
      if (ballot.epoch == configuration_.epoch) agreed = &found->second;
    }
    if (agreed != nullptr)
      known_[name] = *agreed;
    else if (!absent)
      unknown_.push_back(name);
  }
}

}  // namespace rdmc::store

#include "controlplane/view/failure_view.hpp"

#include <algorithm>
#include <utility>

namespace rdmc::view {
namespace {

constexpr Duration kForgetAfter = seconds(10);
/// A view that a member sends is accepted only if it is at most this number of epochs later than the current
/// view. Otherwise this process reads the view from the store.
constexpr std::uint64_t kMostAhead = 16;

}  // namespace

FailureView::FailureView(Member self, const Timing& timing)
    : self_(std::move(self)),
      timing_(timing),
      nobody_yet_(timing, Time{}),
      local_(timing.max_step),
      listening_(timing.max_step),
      lease_(self_.lease) {}

Result<void> FailureView::on_message(std::span<const std::byte> bytes, const Speaker& from, Time clock) {
  if (state_ == State::removed) return {};
  advance(clock);
  auto message = decode(bytes);
  if (!message) {
    ++counters_.malformed;
    return std::unexpected(message.error());
  }
  if (const View* const agreed = std::get_if<View>(&*message)) {
    on_agreed(*agreed, from);
  } else {
    Status& status = std::get<Status>(*message);
    if (status.from != from.id) {
      ++counters_.malformed;
      return fail(Errc::protocol_error, "speaks in another's name");
    }
    on_status(std::move(status), from);
  }
  settle();
  return {};
}

/// Accepts an authenticated view from a member of the current view, if its epoch is plausible. In all other
/// cases, only makes this process read the store.
void FailureView::on_agreed(const View& view, const Speaker& from) {
  const bool likely = view.epoch > view_.epoch && value_of(view.epoch) - value_of(view_.epoch) <= kMostAhead;
  if (likely && from.is_authenticated && view_.contains(from.id))
    learn(view);
  else
    read_if_behind(view.epoch);
}

void FailureView::on_status(Status status, const Speaker& from) {
  if (status.from == self_.id) return;
  const bool member = view_.contains(status.from);
  auto found = peers_.find(status.from);
  if (found == peers_.end()) {
    // The sender may belong to a view that is not known here yet. Then it becomes known with that view.
    read_if_behind(status.epoch);
    // The sender may be a member that was removed long ago and has been silent since then.
    if (!status.joining) tell_if_behind(status.epoch, from.address);
    if (!status.joining || !from.is_authenticated || peers_.size() >= 2 * kMaxMembers) return;
    found = peers_.emplace(status.from, Peer{*status.joining, nobody_yet_}).first;
    joiner_at_ = local_.now();
  }
  Peer& peer = found->second;
  if (!peer.said_anything) peer.suspicion.restart(listening_now());
  // Leases must be handled before the check for late statuses. The same status may already have arrived over
  // the data path, where it was not authenticated.
  if (from.is_authenticated) hear_of_leases(status);
  if (status.sequence <= peer.status.sequence) {
    counters_.late += status.sequence < peer.status.sequence ? 1 : 0;
    return;
  }
  read_if_behind(status.epoch);
  if (member || !status.joining) tell_if_behind(status.epoch, peer.member.address);
  // Other members may have suspected this peer, even if this process did not.
  if (peer.silent || is_doubtful(peer)) peer.recovered_at = listening_now() + timing_.recovery;
  peer.silent = false;
  peer.suspicion.heard(listening_now());
  if (member) member_heard_ = local_.now();
  const bool news = !peer.said_anything || status.hears != peer.status.hears ||
                    status.epoch != peer.status.epoch || status.joining != peer.status.joining;
  dirty_ = dirty_ || news;
  peer.said_anything = true;
  if (member)
    for (const MemberId id : status.gone) note_gone(id);
  peer.status = std::move(status);
  check_address_claim(peer);
}

void FailureView::on_gone(MemberId member, Time clock) {
  if (state_ == State::removed) return;
  advance(clock);
  note_gone(member);
  settle();
}

/// Handles a refused connection. Only a member counts the process as gone. A joiner could replace the whole
/// group because of such signs, so it must first write a liveness query to the store.
void FailureView::on_refused(MemberId member, bool had_connection, Time clock) {
  if (state_ == State::removed) return;
  advance(clock);
  if (had_connection && state_ == State::member)
    note_gone(member);
  else
    note_bad_path(member);
  settle();
}

void FailureView::on_path_failed(MemberId member, Epoch epoch, Time clock) {
  if (state_ == State::removed) return;
  advance(clock);
  if (epoch == view_.epoch) note_bad_path(member);
  settle();
}

void FailureView::note_bad_path(MemberId id) {
  if (const auto found = peers_.find(id); found != peers_.end())
    found->second.path_failed_until = local_.now() + timing_.path_failed_for;
}

Result<void> FailureView::remove(MemberId member, Time clock) {
  if (state_ != State::member) return fail(Errc::invalid_argument, "this process is no member of the view");
  if (!view_.contains(member)) return fail(Errc::not_found, "no such member in the view");
  if (!reachable_) return fail(Errc::peer_failed, "the store can't be reached: the view can't change");
  on_gone(member, clock);
  return {};
}

void FailureView::leave(Time clock) {
  leaves_ = true;
  on_gone(self_.id, clock);
}

void FailureView::on_timer(Time clock) {
  if (state_ == State::removed) return;
  advance(clock);
  settle();
}

/// Brings everything up to date after an input. Every input ends with a call of this function.
void FailureView::settle() {
  if (state_ == State::removed) return;
  tend_listening();
  Row heard = who_is_heard();
  if (heard != heard_) {
    for (const MemberId id : heard_) counters_.suspicions += heard.contains(id) ? 0 : 1;
    for (const MemberId id : heard) {
      if (heard_.contains(id)) continue;
      counters_.recoveries += peers_.at(id).status.sequence > 1 ? 1 : 0;
      if (!peers_.at(id).status.hears.contains(self_.id)) unmet_.insert(id);
    }
    heard_ = std::move(heard);
    dirty_ = say_soon_ = true;
  }
  weigh_words();
  tend_store();
  tend_leaving();
  if (state_ == State::removed) return;
  tend_claim();
  if (dirty_) evaluate();
  tend_links();
  tend_leases();
  if (wanted_since_ != Time::never() && local_.now() >= not_before()) propose();
  if (std::exchange(say_soon_, false)) next_news_ = std::min(next_news_, local_.now() + timing_.soon);
  if (local_.now() >= next_status_)
    say_status();
  else if (local_.now() >= next_news_)
    say_news();
}

bool FailureView::is_heard(MemberId id, const Peer& peer) const {
  const bool known = peer.said_anything || view_.contains(id);
  return known && !peer.silent && local_.now() >= peer.path_failed_until;
}

bool FailureView::is_joining(const Peer& peer) const {
  return peer.status.joining.has_value() && !view_.contains(peer.member.id);
}

Row FailureView::who_is_heard() const {
  Row row;
  for (const auto& [id, peer] : peers_)
    if (is_heard(id, peer) && !gone_.contains(id)) row.insert(id);
  return row;
}

void FailureView::say_status() {
  next_status_ = local_.now() + heartbeat();
  next_news_ = Time::never();
  unmet_.clear();
  forget_old_peers();
  // The status is made even if there are no other processes, because making it also makes the request for a
  // lease.
  Transmit words = status(everybody());
  if (!words.to.empty()) outputs_.emplace_back(std::move(words));
}

/// Sends a changed status to the processes that need it before the next heartbeat. It is not sent to all
/// processes, because if each process did so, n² messages would be sent before the one proposal.
void FailureView::say_news() {
  next_news_ = Time::never();
  if (auto to = front(); !to.empty()) outputs_.emplace_back(status(std::move(to)));
}

Transmit FailureView::status(std::vector<Address> to) {
  Status status{.from = self_.id, .sequence = ++sequence_, .epoch = view_.epoch};
  status.hears = heard_;
  status.gone = gone_;
  if (state_ == State::joining) status.joining = self_;
  say_of_leases(status);
  const bool is_to_be_proved = state_ == State::joining || concerns_leases();
  return {std::move(to), encode(status), is_to_be_proved ? Way::both : Way::data_path};
}

/// Returns the addresses of the members that would propose first, and of the processes that wait for a status
/// of this process.
std::vector<Address> FailureView::front() {
  std::vector<Address> to;
  for (const MemberId id : std::exchange(unmet_, {}))
    if (const auto peer = peers_.find(id); peer != peers_.end()) to.push_back(peer->second.member.address);
  std::size_t left = timing_.front;
  for (const Member& member : view_.members) {
    if (left == 0) break;
    if (member.id != self_.id && !heard_.contains(member.id)) continue;
    --left;
    if (member.id != self_.id && std::ranges::find(to, member.address) == to.end())
      to.push_back(member.address);
  }
  return to;
}

std::vector<Address> FailureView::everybody() const {
  std::vector<Address> to;
  const auto add = [&](const Address& address) {
    if (address != self_.address && std::ranges::find(to, address) == to.end()) to.push_back(address);
  };
  for (const Member& member : view_.members) add(member.address);
  for (const auto& [id, peer] : peers_)
    if (is_joining(peer) && heard_.contains(id)) add(peer.member.address);
  return to;
}

void FailureView::tell_agreed(const Address& to) {
  if (value_of(view_.epoch) > 0) outputs_.push_back(Transmit{{to}, encode(view_), Way::authenticated});
}

/// Sends the current view to a process that has shown an older view. Does nothing for a short time after a
/// view change, because the proposer's message to that process is probably still on its way.
void FailureView::tell_if_behind(Epoch epoch, const Address& to) {
  if (epoch < view_.epoch && local_.now() >= learnt_at_ + timing_.behind) tell_agreed(to);
}

void FailureView::forget_old_peers() {
  std::erase_if(peers_, [&](const auto& entry) {
    return !view_.contains(entry.first) &&
           listening_now() - entry.second.suspicion.last_heard() > kForgetAfter;
  });
  std::erase_if(exits_, [&](const auto& entry) {
    return !view_.contains(entry.first) && local_.now() - entry.second.at > kForgetAfter;
  });
}

bool FailureView::admits(Epoch epoch, MemberId from) const {
  return state_ == State::member && epoch == view_.epoch && view_.contains(from);
}

double FailureView::level(MemberId member) const {
  const auto found = peers_.find(member);
  return found == peers_.end() ? 0 : found->second.suspicion.level(listening_now());
}

Time FailureView::next_deadline() const {
  if (state_ == State::removed) return Time::never();
  Time next = std::min({next_status_, next_news_, next_report(), next_listen()});
  for (const auto& [id, peer] : peers_)
    if (peer.path_failed_until > local_.now()) next = std::min(next, peer.path_failed_until);
  for (const auto* pending : {&read_, &swap_, &claim_})
    if (*pending) next = std::min(next, (*pending)->deadline);
  if (!read_) next = std::min({next, read_at_, behind_at_});
  if (!claim_ && may_claim()) next = std::min(next, claim_at_);
  if (wanted_since_ != Time::never() && !swap_ && reachable_) next = std::min(next, not_before());
  return std::min(local_.to_clock(next), next_lease_event());
}

std::optional<Output> FailureView::poll() {
  if (outputs_.empty()) return std::nullopt;
  Output output = std::move(outputs_.front());
  outputs_.pop_front();
  return output;
}

}  // namespace rdmc::view

// Address claims. A joiner may state that it listens at the address of a member, on the same network stack.
// The joiner may be the next life of that member, another process with the same private address, or a process
// that makes a false statement. The claim alone does not show which of these it is. So this process asks
// which process listens at the address now. If that process is the joiner, the member has ended.
#include <algorithm>

#include "controlplane/view/failure_view.hpp"

namespace rdmc::view {

/// True if the joiner claims the address of `former`. A joiner whose status is older than this member is an
/// earlier process at this address, and is dead. It makes no claim.
bool FailureView::claims_address_of(const Peer& joiner, const Member& former) const {
  return is_joining(joiner) && joiner.status.epoch >= former.since &&
         view::claims_address_of(former, *joiner.status.joining);
}

/// Called with every status of a joiner. So no timer is needed: if this process must wait until it may ask,
/// it checks the claim again with a later status.
void FailureView::check_address_claim(const Peer& joiner) {
  const auto former = std::ranges::find_if(
      view_.members, [&](const Member& member) { return claims_address_of(joiner, member); });
  // This process is certainly alive, so it does not ask about its own address.
  if (former == view_.members.end() || former->id == self_.id || gone_.contains(former->id)) return;
  const Time now = local_.now();
  AddressClaim& claim = address_claims_.try_emplace(former->id, AddressClaim{now, now, {}}).first->second;
  const auto place = static_cast<std::int64_t>(place_to_ask(*former));
  if (now < std::max(claim.ask_at, claim.since + timing_.stagger * place)) return;
  claim.ask_at = now + timing_.ask_listener_again * (place + 1);
  claim.request = RequestId{++last_request_};
  claim.said = newest_word_of(former->id);
  ++counters_.listeners_asked;
  outputs_.push_back(AskListener{*claim.request, former->address});
}

/// Returns the position of this process in the order in which processes send AskListener. One answer is
/// enough for the group, so the members that would propose first also ask first. A claim may be repeated
/// without an end. A process at a later position asks about such a claim less often than the first one. A
/// joiner does not know yet which other processes will join, so it does not ask at once.
std::size_t FailureView::place_to_ask(const Member& former) const {
  if (state_ == State::joining)
    return 1 + static_cast<std::size_t>(std::ranges::count_if(
                   heard_, [&](MemberId id) { return id < self_.id && is_joining(peers_.at(id)); }));
  std::size_t before = 0;
  for (const Member& member : view_.members) {
    if (member.id == self_.id) break;
    before += member.id != former.id && heard_.contains(member.id) ? 1 : 0;
  }
  return before < timing_.front ? 0 : before - timing_.front + 1;
}

std::uint64_t FailureView::newest_word_of(MemberId id) const {
  const auto peer = peers_.find(id);
  return peer == peers_.end() ? 0 : peer->second.status.sequence;
}

void FailureView::on_listener(RequestId request, std::optional<MemberId> listener, Time clock) {
  if (state_ == State::removed) return;
  advance(clock);
  const auto asked = std::ranges::find_if(address_claims_,
                                          [&](const auto& entry) { return entry.second.request == request; });
  if (asked != address_claims_.end()) {
    asked->second.request.reset();
    // learn() has removed the claims about processes that are no members.
    const Member& former = *view_.find(asked->first);
    const bool lives =
        // If the member was heard after the question, it is alive, whichever process listens there.
        newest_word_of(former.id) > asked->second.said;
    const auto peer = listener && !lives ? peers_.find(*listener) : peers_.end();
    if (peer != peers_.end() && claims_address_of(peer->second, former))
      note_gone(former.id);
    else
      ++counters_.address_claims_denied;
  }
  settle();
}

}  // namespace rdmc::view

// The end of an epoch without the closing barrier. All members are informed, and the memory is free when no
// peer writes into it any more.
#include <algorithm>
#include <new>

#include "lib/group/group.hpp"

namespace rdmc::group {
namespace {

// Made in advance, because ~Group() must not allocate memory.
const Error kDestroyed{Errc::cancelled, "a group with it was destroyed"};

}  // namespace

void Group::end(const Error& cause) {
  if (phase_ == Phase::open) begin_ending(std::nullopt, cause);
}

void Group::fail(std::optional<Rank> member, const Error& error) {
  if (phase_ != Phase::open) return;
  begin_ending(member, error);
  untold_ = true;
  tell_failure();
}

/// Calls failed(). If memory runs out, the next turn calls it again. Memory can run out here because a group
/// may fail while another group is destroyed, or after memory has run out elsewhere.
void Group::tell_failure() {
  try {
    observer_.failed(blamed_, cause_);
    untold_ = false;
  } catch (const std::bad_alloc&) {
  }
}

void Group::begin_ending(std::optional<Rank> member, const Error& error) {
  phase_ = Phase::ending;
  blamed_ = member;
  try {
    cause_ = error;
  } catch (const std::bad_alloc&) {
    cause_ = {Errc::resource_limit, "no memory"};
  }
  for (Message& message : messages_) message.relay.cancel();
}

/// Waits for the neighbours' End records. A neighbour that has received this member's End writes nothing
/// after its own End. A frame arrives after all blocks that were posted before it. So when the neighbour's
/// End has arrived, everything that it wrote is in place. A neighbour that sends no End in time loses its
/// link.
std::size_t Group::go_on_ending(Time now) {
  if (untold_) tell_failure();
  if (untold_) return 1;
  if (!config_.tells_end) return 0;
  if (end_deadline_ == Time::never()) end_deadline_ = now + config_.end_patience;
  std::size_t done = 0;
  const End end{.failed = blamed_, .code = cause_.code, .what = cause_.what};
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    Edge& edge = edges_[i];
    if (edge.link == nullptr || edge.said_end) continue;
    edge.said_end = edge.link->send(config_.name, end);
    done += edge.said_end ? 1 : 0;
  }
  if (now >= end_deadline_) {
    for (std::size_t i = 0; i < edges_.size(); ++i) {
      if (!edges_[i].is_quiet())
        peers_.disconnect(edges_[i].link->peer(), {Errc::timed_out, "did not end a group with us"});
    }
  }
  const auto is_told = [](const Edge& edge) { return edge.link == nullptr || edge.said_end; };
  if (!std::ranges::all_of(edges_, &Edge::is_quiet) || !std::ranges::all_of(edges_, is_told)) return done;
  release();
  return done + 1;
}

void Group::release() {
  phase_ = Phase::released;
  messages_.clear();
  arena_region_.reset();
  observer_.released();
}

void Group::on_end(Edge& edge, const End& end) {
  edge.heard_end = true;
  const Error cause{end.code, std::string(end.what)};
  // This member goes on, so the member that blames it is wrong.
  if (end.failed == config_.rank) return fail(std::nullopt, cause);
  const bool is_rank = end.failed && value_of(*end.failed) < config_.members.size();
  fail(is_rank ? *end.failed : edge.rank, cause);
}

Time Group::next_deadline() const {
  if (untold_) return Time{};
  return phase_ == Phase::ending ? end_deadline_ : memory_deadline();
}

void Group::on_link_lost(Link& link, const Error& cause) {
  Edge& edge = *find(link);
  edge.link = nullptr;
  edge.writes = 0;
  fail(edge.rank, cause);
}

Group::~Group() {
  if (phase_ != Phase::released) {
    phase_ = Phase::released;  // No upcall comes after this.
    for (std::size_t i = 0; i < edges_.size(); ++i) {
      const Edge& edge = edges_[i];
      if (edge.link == nullptr || (!edge.granted && edge.writes == 0) || edge.is_quiet()) continue;
      peers_.disconnect(edge.link->peer(), kDestroyed);
    }
  }
  if (added_) peers_.remove(*this);
}

}  // namespace rdmc::group

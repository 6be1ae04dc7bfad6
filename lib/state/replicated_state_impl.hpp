// The driver of AgreedInput: it connects the core with a group of a membership, and with the application.
// replicated_state.cpp has the part for the group and for events, and state_transfers.cpp the part for the
// state of other replicas. Any thread may call a function, except where the class says otherwise.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "lib/include/rdmc/replicated_state.hpp"
#include "lib/state/agreed_clock.hpp"
#include "lib/state/agreed_input.hpp"
#include "lib/state/inbox.hpp"
#include "lib/state/transfer.hpp"

namespace rdmc {

namespace state {

/// A batch has one event or kBatchBytes of events, and decisions of the main.
inline constexpr std::size_t kMostMessageBytes = 2 * kMostNote;

}  // namespace state

class ReplicatedState::Impl final : public state::Outlet {
 public:
  Impl(Membership& membership, const ReplicatedStateOptions& options, state::ReplicaId id, std::uint64_t seed)
      : membership_(membership),
        options_(options),
        seed_(seed),
        core_({.member = membership.id(),
               .id = id,
               .least_replicas = options.least_replicas,
               .first_replicas = options.first_replicas,
               .stored = options.stored,
               .awaits_disk = options.awaits_disk},
              *this) {}

  Result<void> open();
  void close();
  Result<std::uint64_t> submit(std::span<const std::byte> event);
  Result<void> begin_anew();
  void persisted(std::uint64_t position);
  std::optional<StateChange> take(Duration longest);
  bool may_answer(std::uint64_t applied) const;

 private:
  /// A part of the state of another replica, and the transfer to which it belongs.
  struct Piece {
    LoadState load;
    std::uint64_t serial = 0;
  };
  using Queued = std::variant<state::Change, Piece>;

  MemberGroupCallbacks callbacks();
  template <typename Step>
  void update(Step step);
  void go_on();
  void abandon(std::uint64_t serial);
  void abandon_all();
  static std::size_t bytes_of(const Queued& change);
  void push(Queued change);
  bool has_room() const { return waiting_bytes_ + core_.held_bytes() < options_.most_waiting_bytes; }
  std::optional<StateChange> next_change();
  // take_mutex_ is locked in these functions.
  void look_after();
  bool is_wanted(const state::Save& save);
  std::optional<StateChange> act(Piece& piece);
  std::optional<StateChange> act(state::Save& save);
  std::optional<StateChange> act(state::SaveOver& over);
  std::optional<StateChange> act(state::Load& load);
  std::optional<StateChange> act(state::Fault& fault);
  template <typename Other>
  std::optional<StateChange> act(Other& other) {
    return StateChange(std::move(other));
  }

  // The mutex is locked in these functions.
  Result<std::uint64_t> send(std::shared_ptr<const state::Bytes> message) override;
  Result<void> tell_main(const state::Bytes& note) override;
  void hand_over(MemberId member) override;
  void remove(MemberId member) override;
  bool has_space() const override { return has_room(); }
  bool is_open(std::uint64_t epoch) const override { return group_ && group_->is_open(epoch); }

  Membership& membership_;
  const ReplicatedStateOptions options_;
  MemberGroup* leader_ = nullptr;  ///< for may_answer()
  /// What the application has counts from then on. Nothing more may come from the state of another replica.
  std::atomic<bool> has_begun_anew_ = false;
  // For may_answer(): the epoch of AgreedInput::answering_epoch(), the position that the application must
  // have reached (kBeingOrdered while events get their positions), and the epoch of the view.
  std::atomic<std::uint64_t> answering_epoch_ = 0, must_reach_ = 0, view_epoch_ = 0;

  std::mutex mutex_;  // protects the following members
  std::condition_variable arrived_;
  std::unique_ptr<MemberGroup> group_;  ///< null until it is made, and after close()
  bool is_leaving_ = false;
  std::uint64_t ordered_ = 0;  ///< the position after the last event in the order, or after the loaded state
  std::uint64_t seed_;
  state::AgreedClock clock_;
  state::AgreedInput core_;
  state::Inbox inbox_{state::kMostMessageBytes};
  std::deque<Queued> changes_;
  std::vector<state::Change> new_changes_;  ///< only go_on() uses it, again and again to save allocations
  std::size_t waiting_bytes_ = 0;  ///< of changes_, and of taken_ with what has left it since look_after()
  /// The transfers from here that are not over. Null until the application takes the Save.
  std::map<std::uint64_t, std::shared_ptr<state::Donor>> donors_;
  std::set<MemberId> not_removed_;  ///< departed members whose removal must be requested

  std::mutex take_mutex_;  // protects the following members; locked before mutex_
  /// The changes that come next. They are taken from changes_ all together.
  std::deque<Queued> taken_;
  std::size_t left_bytes_ = 0, changes_since_look_ = 0;
  std::unique_ptr<state::Recipient> recipient_;
  std::optional<std::uint64_t> loads_;  ///< the transfer to this replica
  Time load_began_{};
  Time next_look_{};
};

/// Takes one step of the core, and then does what follows from it. Any thread may call this function.
template <typename Step>
void ReplicatedState::Impl::update(Step step) {
  {
    const std::lock_guard lock(mutex_);
    const std::size_t before = changes_.size();
    step();
    go_on();
    if (changes_.size() == before) return;
  }
  arrived_.notify_all();
  if (options_.on_change) options_.on_change();
}

}  // namespace rdmc

// The part of AgreedInput for where a replica has its state from: its disk, another replica, or a new
// beginning.
#include <algorithm>
#include <tuple>
#include <utility>

#include "lib/state/agreed_input.hpp"
#include "lib/state/agreed_random.hpp"

namespace rdmc::state {

// -- The disk --

/// During a transfer, this is about what the application had before. That is not used any more.
void AgreedInput::persisted(std::uint64_t position) {
  if (!loading_) app_persisted_ = std::max(app_persisted_, position);
}

bool AgreedInput::is_stored() const {
  return is_complete_ && (!config_.awaits_disk || app_persisted_ >= loaded_);
}

/// The application does not know the positions of decisions.
std::uint64_t AgreedInput::persisted_place() const {
  return app_persisted_ >= event_end_ ? position_ : app_persisted_;
}

/// If the state of enough replicas is on disk, then what all of these have on disk is durable. It stays
/// durable, whatever happens later.
void AgreedInput::advance_durable() {
  if (!config_.awaits_disk) return;
  hellos_[config_.member].persisted = persisted_place();
  if (is_stored() != hellos_[config_.member].is_stored) tell_hello();
  std::uint64_t least = position_;
  std::size_t count = 0;
  for (const auto& [member, hello] : hellos_) {
    if (!hello.is_stored) continue;
    least = std::min(least, hello.persisted);
    ++count;
  }
  if (count >= config_.least_replicas) durable_ = std::max(durable_, least);
}

/// The replica whose stored state the others get, if no replica has the state in memory. A replica whose
/// transfer is not over may have the latest state on its disk, but does not know it in memory any more. It
/// begins again when the transfer has failed.
std::optional<MemberId> AgreedInput::choose_stored() const {
  const auto loads = [](const auto& one) { return one.second.loads_from != ReplicaId{}; };
  if (!config_.stored || std::ranges::any_of(hellos_, loads)) return std::nullopt;
  const auto is_later = [](const StoredState& a, const StoredState& b) {
    return std::tuple(a.position / kRange, a.epoch, a.position) >
           std::tuple(b.position / kRange, b.epoch, b.position);
  };
  MemberId latest = config_.member;
  std::size_t count = 0;
  for (const auto& [member, hello] : hellos_) {
    count += hello.stored.position != 0;
    if (is_later(hello.stored, hellos_.at(latest).stored)) latest = member;
  }
  if (count + config_.least_replicas <= config_.first_replicas && hellos_.size() < config_.first_replicas)
    return std::nullopt;
  return latest;
}

/// All replicas with the same stored state have the state now. They learn it from the list.
void AgreedInput::begin_from_stored() {
  time_ = std::max(time_, stored_.time);
  const std::uint64_t earlier = std::max(stored_.position, position_);
  if (earlier == 0)
    is_complete_ = true;
  else
    begin_at(earlier);
  for (auto& [member, hello] : hellos_) {
    hello.is_complete = hello.is_stored = hello.stored == stored_;
    hello.persisted = 0;
  }
}

// -- The state of another replica --

bool AgreedInput::loaded(std::uint64_t serial, const SnapshotHead& head) {
  if (has_failed_ || !loading_ || loading_->serial != serial) return false;
  if (head.position != serial + 1) {
    load_failed(serial);
    return false;
  }
  const auto held = std::exchange(loading_, std::nullopt)->held;
  is_complete_ = true;
  loaded_ = event_end_ = head.position;
  epoch_ = head.epoch;
  time_ = head.time;
  replicas_ = head.replicas;
  last_ = head.last;
  for (const MemberId member : head.departed) depart(member);
  for (const Held& one : held) apply(one);
  tell_hello();
  return true;
}

bool AgreedInput::load_failed(std::uint64_t serial) {
  if (has_failed_ || !loading_ || loading_->serial != serial) return false;
  give_up_loading();
  tell_hello();
  return true;
}

/// The memory has no state any more, but the disk may have one that is needed. So this replica ends, and its
/// application begins with another one.
void AgreedInput::give_up_loading() {
  drop_loading();
  if (config_.stored) fail({Errc::peer_failed, "the state of another replica has not arrived"});
}

/// The lists of replicas are needed without the state, too: they say which replicas have departed.
void AgreedInput::drop_loading() {
  if (!loading_) return;
  const auto held = std::exchange(loading_, std::nullopt)->held;
  for (const Held& one : held)
    if (const auto* const list = std::get_if<ReplicaList>(&one.entry)) apply(one, *list);
}

Result<void> AgreedInput::begin_anew() {
  if (has_failed_ || !is_main() || !is_lost_ || is_complete_)
    return rdmc::fail(Errc::invalid_argument, "the state is not lost, or this replica is not the main");
  drop_loading();
  begin_at(position_);
  tell_hello();
  return {};
}

/// `position` is in the range of the earlier positions.
void AgreedInput::begin_at(std::uint64_t position) {
  is_complete_ = true;
  depart_all_others();
  ends_.clear();
  stable_ = 0;
  const std::uint64_t place = random_of(value_of(config_.id), group_->epoch) % (kRange / 2);
  position_ = (position / kRange + 1) * kRange + place;
}

// -- Replicas that have departed --

void AgreedInput::depart(MemberId member) {
  is_beginning_ = is_beginning_ || member == MemberId{};
  std::optional<Epoch>& gone = departed_[member];
  const bool has_view = view_.epoch != Epoch{};
  if (has_view && view_.find(member) == nullptr) gone = view_.epoch;
}

/// The main that begins a state anew may not know the replicas with the earlier state. Each member of the
/// view that is not in the group may be one of them, and so may each member of an earlier view. MemberId{}
/// stands for the latter.
void AgreedInput::depart_all_others() {
  depart(MemberId{});
  for (const Member& member : view_.members)
    if (std::ranges::find(group_->members, member.id) == group_->members.end()) depart(member.id);
}

void AgreedInput::on_view(const View& view) {
  view_ = view;
  for (auto& [member, gone] : departed_)
    if (!gone && view_.find(member) == nullptr) gone = view_.epoch;
}

void AgreedInput::on_leases_over(Epoch epoch) {
  leases_over_ = std::max(leases_over_, epoch);
}

/// After begin_anew(), the main may not know a departed member that another replica knows. So each replica
/// requests the removal.
void AgreedInput::check_departed() {
  std::erase_if(departed_, [&](const auto& one) { return one.second && *one.second <= leases_over_; });
  is_beginning_ = is_beginning_ && !departed_.empty();
  for (const auto& [member, gone] : departed_)
    if (!gone) outlet_.remove(member);
}

}  // namespace rdmc::state

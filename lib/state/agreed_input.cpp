#include "lib/state/agreed_input.hpp"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

namespace rdmc::state {
namespace {

/// About the length of what a batch has for an event in addition to the event's bytes.
constexpr std::size_t kEventHeadBytes = 24;

/// The agreed random number of an entry (SplitMix64).
std::uint64_t random_of(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t mixed = seed + (index + 1) * 0x9E3779B97F4A7C15;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
  return mixed ^ (mixed >> 31);
}

/// Identifies a transfer. Two orders at the same position differ in it, if one of them was lost with its
/// epoch.
std::uint32_t group_of(std::uint64_t position, const TransferOrder& order) {
  const auto replicas =
      random_of(static_cast<std::uint64_t>(order.from), static_cast<std::uint64_t>(order.to));
  return static_cast<std::uint32_t>(random_of(replicas, position));
}

}  // namespace

// -- The application --

Result<std::uint64_t> AgreedInput::submit(std::span<const std::byte> bytes) {
  if (has_failed_) return rdmc::fail(Errc::cancelled, "this replica does not take part any more");
  if (bytes.size() > kMostEventBytes)
    return rdmc::fail(Errc::invalid_argument,
                      "an event of more than " + std::to_string(kMostEventBytes) + " bytes");
  if (!is_complete_) return rdmc::fail(Errc::would_block, "this replica does not have the state yet");
  if (own_.size() >= kMostWaitingEvents || own_bytes_ + bytes.size() > kMostWaitingBytes)
    return rdmc::fail(Errc::would_block, "too many events wait");
  const auto& event = own_.emplace_back(
      Waiting{config_.id, ++last_number_, std::make_shared<const Bytes>(bytes.begin(), bytes.end())});
  own_bytes_ += bytes.size();
  if (is_main()) queue_.push_back(event);
  return event.number;
}

void AgreedInput::order(std::int64_t now, std::uint64_t seed) {
  if (has_failed_ || !group_) return;
  if (!is_main()) {
    forward();
  } else if (prepare_epoch()) {
    advance_durable();
    for (std::uint64_t i = 0; send_batch(now, random_of(seed, i)); ++i) {
    }
  }
  if (has_failed_) return;
  check_departed();
  commit();
  tell_status();
}

bool AgreedInput::may_commit() const {
  return !has_failed_ && is_complete_ && listed_ && outlet_.is_open(group_->epoch) && stable_ >= *listed_ &&
         departed_.empty() && stored() >= config_.least_replicas;
}

void AgreedInput::commit() {
  const std::uint64_t safe = config_.awaits_disk ? std::min(stable_, durable_) : stable_;
  if (!may_commit() || safe <= committed_) return;
  committed_ = safe;
  changes_.push_back(StableEvents{committed_});
}

void AgreedInput::tell_status() {
  const ReplicaStatus now{.is_main = is_main(),
                          .is_complete = is_complete_,
                          .is_lost = is_lost_,
                          .complete_replicas = static_cast<std::uint32_t>(complete()),
                          .stored_replicas = static_cast<std::uint32_t>(stored()),
                          .main = group_->root};
  if (now == told_) return;
  told_ = now;
  changes_.push_back(now);
}

void AgreedInput::fail(Error cause) {
  if (std::exchange(has_failed_, true)) return;
  changes_.push_back(Fault{std::move(cause)});
}

std::size_t AgreedInput::complete() const {
  return static_cast<std::size_t>(std::ranges::count_if(replicas_, &Replica::is_complete));
}

std::size_t AgreedInput::stored() const {
  return static_cast<std::size_t>(std::ranges::count_if(replicas_, &Replica::is_stored));
}

// -- The disk --

/// During a transfer, this is about what the application had before. That counts for nothing any more.
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

/// What all replicas have on disk whose state is on disk, if these are enough. It stays true what happens
/// later.
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

// -- The main --

bool AgreedInput::has_all_hellos() const {
  return std::ranges::all_of(group_->members, [&](MemberId member) { return hellos_.contains(member); });
}

/// A replica that is not the main should send the state, because the main has more to do. The youngest one
/// has probably the fewest clients.
std::optional<MemberId> AgreedInput::choose_donor() const {
  std::optional<MemberId> donor;
  for (const MemberId member : group_->members) {
    const auto hello = hellos_.find(member);
    if (hello == hellos_.end() || !hello->second.is_complete) continue;
    if (!donor || member != config_.member) donor = member;
  }
  return donor;
}

/// Makes the list of the epoch when all replicas are known. Returns false if this replica cannot order
/// events.
bool AgreedInput::prepare_epoch() {
  if (has_list_) return true;
  if (!has_all_hellos()) return false;
  const auto donor = choose_donor();
  const auto source = donor ? donor : choose_stored();
  is_lost_ = !source.has_value();
  if (is_lost_) return false;
  if (!is_complete_) {
    if (donor || source != config_.member) return hand_over(*source);
    begin_from_stored();
  }
  list_replicas();
  has_list_ = true;
  for (const auto& [member, hello] : hellos_) {
    const auto is_donor = [&](const auto& other) {
      return other.second.id == hello.loads_from && other.second.is_complete;
    };
    if (!hello.is_complete && std::ranges::none_of(hellos_, is_donor)) order_transfer(member);
  }
  return true;
}

/// Always returns false.
bool AgreedInput::hand_over(MemberId to) {
  if (handed_to_ != to) outlet_.hand_over(to);
  handed_to_ = to;
  return false;
}

void AgreedInput::list_replicas() {
  ReplicaList list{.epoch = group_->epoch, .replicas = {}};
  for (const MemberId member : group_->members) {
    const Hello& hello = hellos_.at(member);
    list.replicas.push_back({member, hello.id, hello.is_complete, hello.is_stored});
  }
  decisions_.push_back(std::move(list));
}

void AgreedInput::order_transfer(MemberId to) {
  const auto donor = choose_donor();
  decisions_.push_back(TransferOrder{hellos_.at(*donor).id, hellos_.at(to).id});
}

/// Sends one batch of what waits. Returns false if there is nothing to send, or if it cannot be sent now.
bool AgreedInput::send_batch(std::int64_t now, std::uint64_t seed) {
  const bool tells_durable = durable_ > told_durable_;
  if (ends_.size() >= kMostBatches || (decisions_.empty() && queue_.empty() && !tells_durable)) return false;
  // A batch that cannot be sent would be made again in each call.
  if (!outlet_.is_open(group_->epoch) || !outlet_.has_space()) return false;
  Batch batch{.position = position_,
              .time = std::max(time_, now),
              .seed = seed,
              .durable = durable_,
              .entries = {decisions_.begin(), decisions_.end()}};
  std::size_t bytes = 0, events = 0;
  std::map<ReplicaId, std::uint64_t> in_batch;
  for (; events < queue_.size(); ++events) {
    const Waiting& next = queue_[events];
    if (bytes > 0 && bytes + next.bytes->size() > kBatchBytes) break;
    auto& last = in_batch.try_emplace(next.from, last_[next.from]).first->second;
    // An event that was sent again is in the order already. There are no gaps, because a replica sends its
    // events in their order.
    if (next.number != last + 1) continue;
    last = next.number;
    bytes += next.bytes->size() + kEventHeadBytes;
    batch.entries.push_back(Event{next.from, next.number, *next.bytes});
  }
  if (batch.entries.empty()) queue_.clear();
  if (batch.entries.empty() && !tells_durable) return false;
  const auto message = std::make_shared<const Bytes>(encode(batch));
  const auto number = outlet_.send(message);
  if (!number) {
    if (number.error().code != Errc::would_block) fail(number.error());
    return false;
  }
  decisions_.clear();
  queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(std::min(events, queue_.size())));
  told_durable_ = durable_;
  take(message);
  ends_.emplace_back(*number, position_);
  return true;
}

void AgreedInput::on_note(MemberId from, std::span<const std::byte> bytes) {
  if (has_failed_ || !is_main() || std::ranges::find(group_->members, from) == group_->members.end()) return;
  const auto note = decode_note(bytes);
  // A replica that breaks the protocol gets no place in the order.
  if (!note) return;
  if (const auto* const hello = std::get_if<Hello>(&*note)) return take_hello(from, *hello);
  const auto known = hellos_.find(from);
  if (known == hellos_.end()) return;
  if (const auto* const persisted = std::get_if<Persisted>(&*note)) {
    known->second.persisted = std::max(known->second.persisted, persisted->position);
    return;
  }
  const auto& forwarded = std::get<Forward>(*note);
  queue_.push_back({known->second.id, forwarded.number,
                    std::make_shared<const Bytes>(forwarded.bytes.begin(), forwarded.bytes.end())});
}

/// A replica says Hello at the beginning of an epoch, and again when it has the state or has not got it.
void AgreedInput::take_hello(MemberId from, const Hello& hello) {
  hellos_[from] = hello;
  if (!has_list_) return;
  if (hello.is_complete)
    list_replicas();
  else
    order_transfer(from);
}

// -- All replicas --

Hello AgreedInput::own_hello() const {
  return {.id = config_.id,
          .is_complete = is_complete_,
          .is_stored = is_stored(),
          .loads_from = loading_ ? loading_->from : ReplicaId{},
          .stored = is_complete_ ? StoredState{} : stored_,
          .persisted = is_complete_ ? persisted_place() : 0};
}

void AgreedInput::tell_hello() {
  has_said_hello_ = is_main();
  if (is_main()) take_hello(config_.member, own_hello());
}

/// Tells the main what it does not know yet. If that is not possible now, it is tried again in the next call,
/// or in the next epoch. A note for the main of this epoch must not reach the main of the next one.
void AgreedInput::forward() {
  if (!outlet_.is_open(group_->epoch)) return;
  if (has_said_hello_ && told_stored_ != is_stored()) has_said_hello_ = false;
  if (!has_said_hello_ && !outlet_.tell_main(encode(own_hello()))) return;
  if (!std::exchange(has_said_hello_, true)) told_persisted_ = own_hello().persisted;
  told_stored_ = is_stored();
  if (config_.awaits_disk && is_complete_ && persisted_place() > told_persisted_) {
    if (!outlet_.tell_main(encode(Persisted{persisted_place()}))) return;
    told_persisted_ = persisted_place();
  }
  while (forwarded_ < own_.size()) {
    const Waiting& next = own_[forwarded_];
    if (forwarded_ > 0 && forwarded_bytes_ + next.bytes->size() > kForwardWindow) return;
    if (!outlet_.tell_main(encode(Forward{next.number, *next.bytes}))) return;
    ++forwarded_;
    forwarded_bytes_ += next.bytes->size();
  }
}

void AgreedInput::on_continued(const GroupView& group) {
  if (has_failed_) return;
  // The replicas that begin the group with its first message have the whole state: an empty one. If there are
  // stored states, the main looks at them first.
  if (!group_) is_complete_ = group.next == 0 && !config_.stored;
  group_ = group;
  hellos_.clear();
  has_list_ = false;
  listed_.reset();
  handed_to_.reset();
  is_lost_ = false;
  decisions_.clear();
  queue_.clear();
  forwarded_ = forwarded_bytes_ = 0;
  advance_stable(group.next);
  tell_hello();
  if (is_main()) queue_.assign(own_.begin(), own_.end());
}

void AgreedInput::on_message(std::uint64_t number, std::shared_ptr<const Bytes> message) {
  if (has_failed_) return;
  take(message);
  if (is_complete_ || loading_) ends_.emplace_back(number, position_);
}

void AgreedInput::on_stable(std::uint64_t count) {
  if (!has_failed_) advance_stable(count);
}

void AgreedInput::advance_stable(std::uint64_t count) {
  for (; !ends_.empty() && ends_.front().first < count; ends_.pop_front()) stable_ = ends_.front().second;
}

/// If the main has begun the state anew, what this replica has or gets is void.
bool AgreedInput::fits(const Batch& batch) {
  if ((!is_complete_ && !loading_) || batch.position == position_) return true;
  const bool is_anew = std::max(batch.position, position_) - std::min(batch.position, position_) > kFar;
  if (!is_anew)
    fail({Errc::protocol_error, "the main has left out a part of the order"});
  else if (is_complete_)
    fail({Errc::peer_failed, "the others have begun the state anew, without what this replica has"});
  else
    give_up_loading();
  return is_anew && !is_complete_;
}

void AgreedInput::take(const std::shared_ptr<const Bytes>& message) {
  auto batch = decode_batch(*message);
  if (!batch) return fail(batch.error());
  if (!fits(*batch)) return;
  durable_ = std::max(durable_, batch->durable);
  Held next{.position = batch->position, .time = batch->time, .seed = batch->seed, .keeper = message};
  for (Entry& entry : batch->entries) {
    next.entry = std::move(entry);
    const auto* const order = std::get_if<TransferOrder>(&next.entry);
    if (order != nullptr && order->to == config_.id && !is_complete_) {
      drop_loading();
      loading_ = Loading{.serial = next.position, .from = order->from};
      // What was stable in an earlier state says nothing about this one.
      ends_.clear();
      stable_ = 0;
      stored_ = {};
      app_persisted_ = 0;
      const auto donor = std::ranges::find(replicas_, order->from, &Replica::id);
      changes_.push_back(Load{donor == replicas_.end() ? MemberId{} : donor->member, next.position,
                              group_of(next.position, *order)});
    } else if (loading_) {
      const auto* const event = std::get_if<Event>(&next.entry);
      loading_->held_bytes += sizeof next + (event == nullptr ? 0 : event->bytes.size());
      loading_->held.push_back(next);
    } else if (is_complete_) {
      apply(next);
    } else if (const auto* const list = std::get_if<ReplicaList>(&next.entry)) {
      // The state begins from stored ones, and this replica has stored the same as the main.
      const auto own = std::ranges::find(list->replicas, config_.id, &Replica::id);
      is_complete_ = told_stored_ = own != list->replicas.end() && own->is_complete;
      if (is_complete_) depart_all_others();
      // The main of a later epoch may have got a Hello that says otherwise.
      if (is_complete_ && list->epoch != group_->epoch) tell_hello();
      apply(next);
    }
    position_ = ++next.position;
    next.seed = random_of(next.seed, 0);
  }
}

void AgreedInput::apply(const Held& one) {
  time_ = std::max(time_, one.time);
  std::visit([&](const auto& entry) { apply(one, entry); }, one.entry);
}

void AgreedInput::apply(const Held& one, const Event& event) {
  if (event.from == config_.id)
    for (; !own_.empty() && own_.front().number <= event.number; own_.pop_front()) {
      own_bytes_ -= own_.front().bytes->size();
      if (forwarded_ == 0) continue;
      --forwarded_;
      forwarded_bytes_ -= own_.front().bytes->size();
    }
  auto& last = last_[event.from];
  if (event.number <= last) return;
  last = event.number;
  event_end_ = one.position + 1;
  changes_.push_back(OrderedEvent{.position = one.position,
                                  .epoch = epoch_,
                                  .own_number = event.from == config_.id ? event.number : 0,
                                  .time = time_,
                                  .random = one.seed,
                                  .bytes = event.bytes,
                                  .keeper = one.keeper});
}

void AgreedInput::apply(const Held& one, const ReplicaList& list) {
  epoch_ = list.epoch;
  const auto before = std::exchange(replicas_, list.replicas);
  for (const Replica& replica : replicas_) departed_.erase(replica.member);
  for (const Replica& old : before)
    if (old.is_complete && std::ranges::find(replicas_, old.member, &Replica::member) == replicas_.end())
      depart(old.member);
  std::erase_if(last_, [&](const auto& known) {
    return std::ranges::find(replicas_, known.first, &Replica::id) == replicas_.end();
  });
  std::erase_if(saves_, [&](const auto& save) {
    const auto to = std::ranges::find(replicas_, save.second, &Replica::id);
    const bool is_over = to == replicas_.end() || to->is_complete;
    if (is_over) changes_.push_back(SaveOver{save.first});
    return is_over;
  });
  if (group_ && list.epoch == group_->epoch) listed_ = one.position + 1;
}

void AgreedInput::apply(const Held& one, const TransferOrder& order) {
  if (order.from != config_.id) return;
  const auto to = std::ranges::find(replicas_, order.to, &Replica::id);
  if (to == replicas_.end()) return;
  std::erase_if(saves_, [&](const auto& save) {
    if (save.second == order.to) changes_.push_back(SaveOver{save.first});
    return save.second == order.to;
  });
  saves_[one.position] = order.to;
  SnapshotHead head{.position = one.position + 1,
                    .epoch = epoch_,
                    .time = time_,
                    .replicas = replicas_,
                    .last = last_,
                    .departed = {}};
  for (const auto& [member, gone] : departed_) head.departed.push_back(member);
  changes_.push_back(
      Save{one.position, group_of(one.position, order), std::make_shared<const Bytes>(encode(head))});
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
  for (const auto& [member, gone] : departed_)
    if (!gone) outlet_.remove(member);
}

}  // namespace rdmc::state

// The part of AgreedInput for the main: the beginning of an epoch, and the batches.
#include <algorithm>

#include "lib/state/agreed_input.hpp"

namespace rdmc::state {

namespace {

/// About the length of what a batch has for an event in addition to the event's bytes.
constexpr std::size_t kEventHeadBytes = 24;

}  // namespace

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

}  // namespace rdmc::state

// The part of a replicated state for the group, for events, and for the application.
#include "lib/state/replicated_state_impl.hpp"

#include <chrono>
#include <utility>

#include "controlplane/auth/random.hpp"
#include "dataplane/base/clock.hpp"

namespace rdmc {

using namespace state;

namespace {

/// The least value of most_waiting_bytes.
constexpr std::size_t kLeastWaitingBytes = 2 * kMostMessageBytes;
/// While take() waits, it looks this often after what no upcall reports.
constexpr Duration kLookEvery = milliseconds(50);
/// While take() does not wait, it looks after each such number of changes.
constexpr std::size_t kChangesPerLook = 64;
/// A transfer that has not begun after this time is given up.
constexpr Duration kLoadPatience = seconds(20);
constexpr std::uint64_t kMostNumber = (std::uint64_t{1} << 31) - 1;
/// See must_reach_. No application has applied so many events.
constexpr std::uint64_t kBeingOrdered = ~std::uint64_t{};

/// In nanoseconds.
std::int64_t read(auto clock_now) {
  return std::chrono::nanoseconds(clock_now.time_since_epoch()).count();
}

Result<std::uint64_t> random_number() {
  std::uint64_t number = 0;
  if (auto filled = control::fill_random(std::as_writable_bytes(std::span(&number, 1))); !filled)
    return std::unexpected(filled.error());
  return number;
}

}  // namespace

void ReplicatedState::Impl::go_on() {
  const std::int64_t steady = read(std::chrono::steady_clock::now());
  core_.order(clock_.read(read(std::chrono::system_clock::now()), steady), seed_);
  seed_ = seed_ * 6364136223846793005 + 1442695040888963407;
  core_.take_changes(new_changes_);
  for (Change& one : new_changes_) {
    if (const auto* const event = std::get_if<OrderedEvent>(&one)) {
      ordered_ = event->position + 1;
      clock_.observe(event->time, steady);
    }
    if (const auto* const save = std::get_if<Save>(&one)) donors_[save->serial] = nullptr;
    if (const auto* const over = std::get_if<SaveOver>(&one)) abandon(over->serial);
    if (std::holds_alternative<Fault>(one)) abandon_all();
    push(std::move(one));
  }
  must_reach_ = ordered_;
  answering_epoch_ = core_.answering_epoch();
  // A replica that does not take part must not count as one that has the events.
  if (core_.has_failed() && group_ && !std::exchange(is_leaving_, true))
    group_->leave({Errc::cancelled, "this replica cannot take part any more"});
}

/// The thread that saves sees at once that the other replica does not need the state any more.
void ReplicatedState::Impl::abandon(std::uint64_t serial) {
  const auto found = donors_.find(serial);
  if (found == donors_.end()) return;
  if (found->second)
    found->second->abandon();
  else
    donors_.erase(found);  // The application never gets this Save.
}

void ReplicatedState::Impl::abandon_all() {
  std::erase_if(donors_, [](const auto& one) { return one.second == nullptr; });
  for (const auto& [serial, donor] : donors_) donor->abandon();
}

std::size_t ReplicatedState::Impl::bytes_of(const Queued& change) {
  if (const auto* const piece = std::get_if<Piece>(&change)) return piece->load.bytes.size();
  const auto* const event = std::get_if<OrderedEvent>(&std::get<Change>(change));
  return event == nullptr ? 0 : event->bytes.size() + sizeof(Queued);
}

/// A later StableEvents stands for an earlier one.
void ReplicatedState::Impl::push(Queued change) {
  const auto is_stable = [](const Queued& one) {
    const auto* const known = std::get_if<Change>(&one);
    return known != nullptr && std::holds_alternative<StableEvents>(*known);
  };
  if (!changes_.empty() && is_stable(change) && is_stable(changes_.back())) {
    changes_.back() = std::move(change);
    return;
  }
  waiting_bytes_ += bytes_of(change);
  changes_.push_back(std::move(change));
}

MemberGroupCallbacks ReplicatedState::Impl::callbacks() {
  MemberGroupCallbacks on;
  on.incoming = [this](std::uint64_t, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    return inbox_.incoming(bytes, has_room());
  };
  on.delivered = [this](std::uint64_t message, std::span<std::byte> bytes) {
    update([&] {
      if (auto kept = inbox_.delivered(message, bytes)) core_.on_message(message, std::move(kept));
    });
  };
  on.reusable = [this](std::uint64_t message) { update([&] { inbox_.reusable(message); }); };
  on.stable = [this](std::uint64_t count) { update([&] { core_.on_stable(count); }); };
  on.told = [this](MemberId from, std::span<const std::byte> note) {
    update([&] { core_.on_note(from, note); });
  };
  on.continued = [this](const GroupView& view) {
    update([&] {
      inbox_.continued();
      core_.on_continued(view);
    });
  };
  on.installed = [this](const View& view) {
    update([&] { core_.on_view(view); });
    view_epoch_ = value_of(view.epoch);
  };
  on.earlier_leases_over = [this](Epoch epoch) { update([&] { core_.on_leases_over(epoch); }); };
  on.ended = [this](const Error& cause) { update([&] { core_.end(cause); }); };
  return on;
}

Result<void> ReplicatedState::Impl::open() {
  MemberGroupOptions options;
  options.group.block_bytes = kUsualBlockBytes;
  options.first_members = options_.first_replicas;
  // See ReplicatedStateOptions::stored.
  if (options_.stored && options_.stored->position != 0)
    options.first_members =
        options_.first_replicas - std::min(options_.least_replicas, options_.first_replicas) + 1;
  auto group = membership_.create_group(options_.number, options, callbacks());
  if (!group) return std::unexpected(group.error());
  leader_ = group->get();
  update([&] { group_ = std::move(*group); });
  return {};
}

void ReplicatedState::Impl::close() {
  std::map<std::uint64_t, std::shared_ptr<Donor>> donors;
  std::unique_ptr<MemberGroup> group;
  {
    const std::lock_guard lock(mutex_);
    donors.swap(donors_);
    group = std::move(group_);
  }
  for (const auto& [serial, donor] : donors)
    if (donor) donor->close();
  group.reset();
  const std::lock_guard lock(take_mutex_);
  recipient_.reset();
}

// -- The group, for the core --

Result<std::uint64_t> ReplicatedState::Impl::send(std::shared_ptr<const Bytes> message) {
  if (!group_) return rdmc::fail(Errc::would_block, "the group is being made");
  // As soon as the message is sent, other replicas may answer what follows from it. This replica must answer
  // no read from then on that does not follow from it, too.
  must_reach_ = kBeingOrdered;
  auto number = group_->send(*message);
  // Another member may have become the root, which this replica learns soon.
  if (!number && number.error().code == Errc::invalid_argument)
    return rdmc::fail(Errc::would_block, number.error().what);
  if (number) inbox_.retain(*number, std::move(message));
  return number;
}

Result<void> ReplicatedState::Impl::tell_main(const Bytes& note) {
  if (!group_) return rdmc::fail(Errc::would_block, "the group is being made");
  return group_->tell_root(note);
}

void ReplicatedState::Impl::hand_over(MemberId member) {
  if (group_) static_cast<void>(group_->change_root(member));
}

void ReplicatedState::Impl::remove(MemberId member) {
  not_removed_.insert(member);  // look_after() requests it.
}

// -- The application --

Result<std::uint64_t> ReplicatedState::Impl::submit(std::span<const std::byte> event) {
  Result<std::uint64_t> number;
  update([&] { number = core_.submit(event); });
  return number;
}

Result<void> ReplicatedState::Impl::begin_anew() {
  Result<void> begun;
  update([&] {
    begun = core_.begin_anew();
    if (begun) has_begun_anew_ = true;
  });
  return begun;
}

void ReplicatedState::Impl::persisted(std::uint64_t position) {
  update([&] { core_.persisted(position); });
}

bool ReplicatedState::Impl::may_answer(std::uint64_t applied) const {
  const std::uint64_t epoch = answering_epoch_;
  return epoch != 0 && applied >= must_reach_ && leader_->leads(epoch) &&
         membership_.holds_lease(Epoch{view_epoch_.load()});
}

std::optional<StateChange> ReplicatedState::Impl::take(Duration longest) {
  const Time latest = longest.ns > 0 ? monotonic_now() + longest : Time{};
  for (;;) {
    if (auto change = next_change()) return change;
    if (longest.ns <= 0) return std::nullopt;
    std::unique_lock lock(mutex_);
    const auto pause = std::clamp<std::int64_t>((latest - monotonic_now()).ns, 0, kLookEvery.ns);
    const bool has_some =
        arrived_.wait_for(lock, std::chrono::nanoseconds(pause), [&] { return !changes_.empty(); });
    if (!has_some && monotonic_now() >= latest) return std::nullopt;
  }
}

std::optional<StateChange> ReplicatedState::Impl::next_change() {
  const std::lock_guard lock(take_mutex_);
  if (taken_.empty() || ++changes_since_look_ >= kChangesPerLook) look_after();
  while (!taken_.empty()) {
    Queued next = std::move(taken_.front());
    taken_.pop_front();
    left_bytes_ += bytes_of(next);
    // Some changes are only for this class.
    auto* const piece = std::get_if<Piece>(&next);
    auto change = piece != nullptr
                      ? act(*piece)
                      : std::visit([this](auto& one) { return act(one); }, std::get<Change>(next));
    if (change) return change;
  }
  return std::nullopt;
}

/// Takes the changes that have come. Does what must be done now and then: gives memory to messages that wait
/// for it, gives up a transfer that does not begin, and requests the removal of departed members.
void ReplicatedState::Impl::look_after() {
  changes_since_look_ = 0;
  {
    const std::lock_guard lock(mutex_);
    waiting_bytes_ -= std::exchange(left_bytes_, 0);
    if (taken_.empty()) taken_.swap(changes_);
    if (group_ && has_room())
      inbox_.post_buffers(
          [this](std::span<std::byte> buffer) { return group_->post_receive_buffer(buffer).has_value(); });
  }
  const Time now = monotonic_now();
  if (recipient_) recipient_->give_room();
  if (now < next_look_) return;
  next_look_ = now + kLookEvery;
  update([&] {
    for (const MemberId member : std::exchange(not_removed_, {})) membership_.remove(member);
  });
  const bool has_begun = recipient_ && recipient_->has_begun();
  if (!loads_ || has_begun || now - load_began_ < kLoadPatience) return;
  recipient_.reset();
  // The whole state may have arrived until now. Then the transfer has not failed, and its pieces follow.
  bool has_failed = false;
  update([&] { has_failed = core_.load_failed(*loads_); });
  if (has_failed) loads_.reset();
}

ReplicatedState::ReplicatedState(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ReplicatedState::~ReplicatedState() {
  impl_->close();
}

Result<std::unique_ptr<ReplicatedState>> ReplicatedState::open(Membership& membership,
                                                               const ReplicatedStateOptions& options) {
  if (value_of(options.number) > kMostNumber)
    return fail(Errc::invalid_argument, "the number of a state is below 2^31");
  if (options.first_replicas == 0) return fail(Errc::invalid_argument, "a state needs a first replica");
  if (options.most_waiting_bytes < kLeastWaitingBytes)
    return fail(Errc::invalid_argument, "most_waiting_bytes is at least 4 MB");
  if (options.awaits_disk && !options.stored)
    return fail(Errc::invalid_argument, "awaits_disk is for an application that gives what it has stored");
  ReplicatedStateOptions complete = options;
  if (complete.least_replicas == 0) complete.least_replicas = options.first_replicas / 2 + 1;
  const auto id = random_number(), seed = random_number();
  if (!id) return std::unexpected(id.error());
  if (!seed) return std::unexpected(seed.error());
  auto impl = std::make_unique<Impl>(membership, complete, ReplicaId{*id}, *seed);
  if (auto opened = impl->open(); !opened) return std::unexpected(opened.error());
  return std::unique_ptr<ReplicatedState>(new ReplicatedState(std::move(impl)));
}

Result<std::uint64_t> ReplicatedState::submit(std::span<const std::byte> event) {
  return impl_->submit(event);
}
std::optional<StateChange> ReplicatedState::take(Duration longest) {
  return impl_->take(longest);
}
Result<void> ReplicatedState::begin_anew() {
  return impl_->begin_anew();
}
void ReplicatedState::persisted(std::uint64_t position) {
  impl_->persisted(position);
}
bool ReplicatedState::may_answer(std::uint64_t applied) const {
  return impl_->may_answer(applied);
}

}  // namespace rdmc

// The driver of AgreedInput: it connects the core with a group of a membership, and with the application.
#include "lib/include/rdmc/replicated_state.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "controlplane/auth/random.hpp"
#include "dataplane/base/clock.hpp"
#include "lib/state/agreed_input.hpp"
#include "lib/state/inbox.hpp"
#include "lib/state/transfer.hpp"

namespace rdmc {

using namespace state;

namespace {

/// A batch has one event or kBatchBytes of events, and decisions of the main.
constexpr std::size_t kMostMessageBytes = 2 * kMostNote;
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

std::int64_t wall_clock() {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

Result<std::uint64_t> random_number() {
  std::uint64_t number = 0;
  if (auto filled = control::fill_random(std::as_writable_bytes(std::span(&number, 1))); !filled)
    return std::unexpected(filled.error());
  return number;
}

}  // namespace

/// Ends the transfer if the application drops the writer before it has finished.
class StateWriter::Impl {
 public:
  explicit Impl(std::shared_ptr<Donor> donor) : donor_(std::move(donor)) {}
  ~Impl();

  void write(Bytes bytes) { donor_->write(std::move(bytes)); }
  void finish() {
    donor_->finish();
    is_finished_ = true;
  }
  std::size_t waiting_bytes() const { return donor_->waiting_bytes(); }

 private:
  const std::shared_ptr<Donor> donor_;
  std::atomic<bool> is_finished_ = false;
};

StateWriter::Impl::~Impl() {
  if (!is_finished_) donor_->close();
}
void StateWriter::write(std::vector<std::byte> bytes) {
  impl_->write(std::move(bytes));
}
void StateWriter::finish() {
  impl_->finish();
}
std::size_t StateWriter::waiting_bytes() const {
  return impl_->waiting_bytes();
}

class ReplicatedState::Impl final : public Outlet {
 public:
  Impl(Membership& membership, const ReplicatedStateOptions& options, ReplicaId id, std::uint64_t seed)
      : membership_(membership),
        options_(options),
        seed_(seed),
        core_({.member = membership.id(), .id = id, .least_replicas = options.least_replicas}, *this) {}

  Result<void> open();
  void close();
  Result<std::uint64_t> submit(std::span<const std::byte> event);
  Result<void> begin_anew();
  std::optional<StateChange> take(Duration longest);
  bool may_answer(std::uint64_t applied) const;

 private:
  /// A part of the state of another replica, and the transfer to which it belongs.
  struct Piece {
    LoadState load;
    std::uint64_t serial = 0;
  };
  using Queued = std::variant<Change, Piece>;

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
  bool is_wanted(const Save& save);
  std::optional<StateChange> act(Piece& piece);
  std::optional<StateChange> act(Save& save);
  std::optional<StateChange> act(SaveOver& over);
  std::optional<StateChange> act(Load& load);
  std::optional<StateChange> act(Fault& fault);
  template <typename Other>
  std::optional<StateChange> act(Other& other) {
    return StateChange(std::move(other));
  }

  // The mutex is locked in these functions.
  Result<std::uint64_t> send(std::shared_ptr<const Bytes> message) override;
  Result<void> tell_main(const Bytes& note) override;
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
  AgreedInput core_;
  Inbox inbox_{kMostMessageBytes};
  std::deque<Queued> changes_;
  std::vector<Change> news_;       ///< only go_on() uses it, again and again to save allocations
  std::size_t waiting_bytes_ = 0;  ///< of changes_, and of taken_ with what has left it since look_after()
  /// The transfers from here that are not over. Null until the application takes the Save.
  std::map<std::uint64_t, std::shared_ptr<Donor>> donors_;
  std::set<MemberId> not_removed_;  ///< departed members whose removal must be requested

  std::mutex take_mutex_;  // protects the following members; locked before mutex_
  /// The changes that come next. They are taken from changes_ all together.
  std::deque<Queued> taken_;
  std::size_t left_bytes_ = 0, changes_since_look_ = 0;
  std::unique_ptr<Recipient> recipient_;
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

void ReplicatedState::Impl::go_on() {
  core_.order(wall_clock(), seed_);
  seed_ = seed_ * 6364136223846793005 + 1442695040888963407;
  core_.take_changes(news_);
  for (Change& one : news_) {
    if (const auto* const event = std::get_if<OrderedEvent>(&one)) ordered_ = event->position + 1;
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

// -- Transfers. The thread of take() makes and ends their groups, because an upcall must not do that. --

/// False if the transfer is over already.
bool ReplicatedState::Impl::is_wanted(const Save& save) {
  const std::lock_guard lock(mutex_);
  return donors_.contains(save.serial);
}

/// If the group cannot be made, the other replica gives up after a while, and gets another transfer.
std::optional<StateChange> ReplicatedState::Impl::act(Save& save) {
  const auto head = decode_snapshot_head(*save.head);
  std::shared_ptr<Donor> donor;
  if (is_wanted(save))
    if (auto made = Donor::open(membership_, group_of(options_.number, save.group), *save.head))
      donor = std::move(*made);
  if (!donor || !head) return std::nullopt;
  {
    const std::lock_guard lock(mutex_);
    const auto found = donors_.find(save.serial);
    if (found != donors_.end()) found->second = donor;
  }
  // Without this, the application could wait forever for a replica that is gone.
  if (!is_wanted(save)) return std::nullopt;
  return SaveState{StateWriter(std::make_shared<StateWriter::Impl>(donor)), head->position};
}

std::optional<StateChange> ReplicatedState::Impl::act(SaveOver& over) {
  std::shared_ptr<Donor> donor;
  {
    const std::lock_guard lock(mutex_);
    if (auto found = donors_.extract(over.serial)) donor = std::move(found.mapped());
  }
  if (donor) donor->close();
  return std::nullopt;
}

std::optional<StateChange> ReplicatedState::Impl::act(Load& load) {
  recipient_.reset();
  loads_ = load.serial;
  load_began_ = monotonic_now();
  const auto head = std::make_shared<SnapshotHead>();
  Recipient::Hooks hooks{
      .begun = [head](SnapshotHead read) { *head = std::move(read); },
      .got =
          [this, serial = load.serial](std::shared_ptr<const Bytes> piece) {
            update([&] {
              if (!core_.loads(serial)) return;
              push(Piece{{.step = LoadState::Step::bytes, .bytes = *piece, .keeper = piece}, serial});
            });
          },
      .ended =
          [this, head, serial = load.serial] {
            update([&] {
              if (!core_.loaded(serial, *head)) return;
              ordered_ = head->position;
              push(Piece{{.step = LoadState::Step::end, .position = head->position}, serial});
            });
          },
      .failed = [this, serial = load.serial] { update([&] { core_.load_failed(serial); }); },
      .has_room =
          [this] {
            // Events that wait for the state must not keep the state from coming.
            const std::lock_guard lock_for_room(mutex_);
            return waiting_bytes_ < options_.most_waiting_bytes;
          }};
  // If the group cannot be made now, look_after() gives up this transfer, and another one follows.
  auto recipient = Recipient::open(membership_, group_of(options_.number, load.group), load.from, hooks);
  if (recipient) recipient_ = std::move(*recipient);
  return LoadState{.step = LoadState::Step::begin};
}

/// An earlier transfer may still have sent something after a later one was ordered.
std::optional<StateChange> ReplicatedState::Impl::act(Piece& piece) {
  if (piece.serial != loads_ || has_begun_anew_) return std::nullopt;
  if (piece.load.step == LoadState::Step::end) {
    recipient_.reset();
    loads_.reset();
  }
  return StateChange(std::move(piece.load));
}

/// No part of a state may come after this.
std::optional<StateChange> ReplicatedState::Impl::act(Fault& fault) {
  recipient_.reset();
  loads_.reset();
  return StateEnded{fault.cause};
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
bool ReplicatedState::may_answer(std::uint64_t applied) const {
  return impl_->may_answer(applied);
}

}  // namespace rdmc

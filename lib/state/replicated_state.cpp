// The driver of AgreedInput: it connects the core with a group of a membership, and with the application.
#include "lib/include/rdmc/replicated_state.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "controlplane/auth/random.hpp"
#include "lib/state/agreed_input.hpp"
#include "lib/state/inbox.hpp"
#include "lib/state/transfer.hpp"

namespace rdmc {

using namespace state;

namespace {

/// A batch has one event or kBatchBytes of events, and decisions of the main.
constexpr std::size_t kMostMessageBytes = 2 * kMostNote;
constexpr std::uint64_t kMostNumber = (std::uint64_t{1} << 31) - 1;

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
  std::optional<StateNews> take(Duration longest);
  bool may_answer() const {
    return may_commit_ && leader_->leads() && membership_.holds_lease(Epoch{view_epoch_.load()});
  }

 private:
  /// News of the core, and of a transfer to this replica.
  using Queued = std::variant<News, LoadState>;

  MemberGroupCallbacks callbacks();
  template <typename Change>
  void change(Change change);
  void go_on();
  static std::size_t bytes_of(const Queued& news);
  void push(Queued news);
  bool has_room() const { return waiting_bytes_ < options_.most_waiting_bytes; }
  void give_room();
  std::optional<StateNews> act(Save& save);
  std::optional<StateNews> act(SaveOver& over);
  std::optional<StateNews> act(Load& load);
  std::optional<StateNews> act(Fault& fault);
  template <typename Other>
  std::optional<StateNews> act(Other& other) {
    return StateNews(std::move(other));
  }
  void fail(Error cause);

  Result<std::uint64_t> send(std::shared_ptr<const Bytes> message) override;
  Result<void> tell_main(const Bytes& note) override;
  void hand_over(MemberId member) override;
  void remove(MemberId member) override { membership_.remove(member); }

  Membership& membership_;
  const ReplicatedStateOptions options_;
  MemberGroup* leader_ = nullptr;  ///< for may_answer()
  std::atomic<bool> may_commit_ = false;
  std::atomic<std::uint64_t> view_epoch_ = 0;

  std::mutex mutex_;  // protects the following members
  std::condition_variable changed_;
  std::unique_ptr<MemberGroup> group_;  ///< null until it is made, and after close()
  std::uint64_t seed_;
  AgreedInput core_;
  Inbox inbox_{kMostMessageBytes};
  std::deque<Queued> news_;
  std::size_t waiting_bytes_ = 0;

  std::mutex transfers_mutex_;  // protects the following members; locked before mutex_
  std::map<std::uint64_t, std::shared_ptr<Donor>> donors_;
  std::unique_ptr<Recipient> recipient_;
};

/// Changes the core, and then does what follows from the change. Any thread may call this function.
template <typename Change>
void ReplicatedState::Impl::change(Change change) {
  {
    const std::lock_guard lock(mutex_);
    const std::size_t before = news_.size();
    change();
    go_on();
    if (news_.size() == before) return;
  }
  changed_.notify_all();
  if (options_.on_news) options_.on_news();
}

void ReplicatedState::Impl::go_on() {
  core_.order(wall_clock(), seed_);
  seed_ = seed_ * 6364136223846793005 + 1442695040888963407;
  may_commit_ = core_.may_commit();
  for (News& one : core_.take_news()) push(std::move(one));
}

std::size_t ReplicatedState::Impl::bytes_of(const Queued& news) {
  if (const auto* const load = std::get_if<LoadState>(&news)) return load->bytes.size();
  const auto* const event = std::get_if<OrderedEvent>(&std::get<News>(news));
  return event == nullptr ? 0 : event->bytes.size();
}

void ReplicatedState::Impl::push(Queued news) {
  waiting_bytes_ += bytes_of(news);
  news_.push_back(std::move(news));
}

MemberGroupCallbacks ReplicatedState::Impl::callbacks() {
  MemberGroupCallbacks on;
  on.incoming = [this](std::uint64_t, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    return inbox_.incoming(bytes, has_room());
  };
  on.delivered = [this](std::uint64_t message, std::span<std::byte> bytes) {
    change([&] {
      if (auto kept = inbox_.delivered(message, bytes)) core_.on_message(message, std::move(kept));
    });
  };
  on.reusable = [this](std::uint64_t message) { change([&] { inbox_.reusable(message); }); };
  on.stable = [this](std::uint64_t count) { change([&] { core_.on_stable(count); }); };
  on.told = [this](MemberId from, std::span<const std::byte> note) {
    change([&] { core_.on_note(from, note); });
  };
  on.continued = [this](const GroupView& view) {
    change([&] {
      inbox_.continued();
      core_.on_continued(view);
    });
  };
  on.installed = [this](const View& view) {
    change([&] { core_.on_view(view); });
    view_epoch_ = value_of(view.epoch);
  };
  on.earlier_leases_over = [this](Epoch epoch) { change([&] { core_.on_leases_over(epoch); }); };
  on.ended = [this](const Error& cause) { fail(cause); };
  return on;
}

void ReplicatedState::Impl::fail(Error cause) {
  change([&] { core_.end(std::move(cause)); });
}

Result<void> ReplicatedState::Impl::open() {
  MemberGroupOptions options;
  options.group.block_bytes = kUsualBlockBytes;
  options.first_members = options_.first_replicas;
  auto group = membership_.create_group(options_.number, options, callbacks());
  if (!group) return std::unexpected(group.error());
  leader_ = group->get();
  change([&] { group_ = std::move(*group); });
  return {};
}

void ReplicatedState::Impl::close() {
  {
    const std::lock_guard lock(transfers_mutex_);
    donors_.clear();
    recipient_.reset();
  }
  std::unique_ptr<MemberGroup> group;
  {
    const std::lock_guard lock(mutex_);
    group = std::move(group_);
  }
}

// -- The group, for the core. The mutex is locked. --

Result<std::uint64_t> ReplicatedState::Impl::send(std::shared_ptr<const Bytes> message) {
  if (!group_) return rdmc::fail(Errc::would_block, "the group is being made");
  if (!has_room()) return rdmc::fail(Errc::would_block, "too much waits for the application");
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

// -- The application --

Result<std::uint64_t> ReplicatedState::Impl::submit(std::span<const std::byte> event) {
  Result<std::uint64_t> number;
  change([&] { number = core_.submit(event); });
  return number;
}

std::optional<StateNews> ReplicatedState::Impl::take(Duration longest) {
  const auto latest = std::chrono::steady_clock::now() + std::chrono::nanoseconds(longest.ns);
  for (;;) {
    std::optional<Queued> next;
    bool has_room_again = false;
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait_until(lock, latest, [&] { return !news_.empty(); })) return std::nullopt;
      const bool had_room = has_room();
      next = std::move(news_.front());
      news_.pop_front();
      waiting_bytes_ -= bytes_of(*next);
      has_room_again = !had_room && has_room();
    }
    if (has_room_again) give_room();
    if (auto* const load = std::get_if<LoadState>(&*next)) return StateNews(std::move(*load));
    // Some news are only for this class.
    if (auto news = std::visit([this](auto& one) { return act(one); }, std::get<News>(*next))) return news;
  }
}

void ReplicatedState::Impl::give_room() {
  change([&] {
    while (group_ && has_room()) {
      const auto buffer = inbox_.next_buffer(true);
      if (!buffer || !group_->post_receive_buffer(*buffer)) break;
    }
  });
  const std::lock_guard lock(transfers_mutex_);
  if (recipient_) recipient_->on_room();
}

// -- Transfers. The thread of take() makes and ends their groups, because an upcall must not do that. --

std::optional<StateNews> ReplicatedState::Impl::act(Save& save) {
  auto donor = Donor::open(membership_, group_of(options_.number, save.serial), *save.head);
  if (!donor) {
    fail(donor.error());  // The other replica gets the state from another one when this one is gone.
    return std::nullopt;
  }
  const std::lock_guard lock(transfers_mutex_);
  std::shared_ptr<Donor> shared = donors_[save.serial] = std::move(*donor);
  return SaveState{StateWriter(std::make_shared<StateWriter::Impl>(std::move(shared)))};
}

std::optional<StateNews> ReplicatedState::Impl::act(SaveOver& over) {
  const std::lock_guard lock(transfers_mutex_);
  if (const auto found = donors_.find(over.serial); found != donors_.end()) {
    found->second->close();
    donors_.erase(found);
  }
  return std::nullopt;
}

std::optional<StateNews> ReplicatedState::Impl::act(Load& load) {
  const std::lock_guard lock(transfers_mutex_);
  recipient_.reset();
  const auto head = std::make_shared<SnapshotHead>();
  Recipient::Hooks hooks{
      .begun = [head](SnapshotHead read) { *head = std::move(read); },
      .got =
          [this](std::shared_ptr<const Bytes> piece) {
            change(
                [&] { push(LoadState{.step = LoadState::Step::bytes, .bytes = *piece, .keeper = piece}); });
          },
      .ended =
          [this, head, serial = load.serial] {
            change([&] {
              push(LoadState{.step = LoadState::Step::end});
              // An error means that the donor is faulty. Another transfer follows.
              static_cast<void>(core_.loaded(serial, *head));
            });
          },
      .failed = [this, serial = load.serial] { change([&] { core_.load_failed(serial); }); },
      .has_room =
          [this] {
            const std::lock_guard lock_for_room(mutex_);
            return has_room();
          }};
  auto recipient = Recipient::open(membership_, group_of(options_.number, load.serial), load.from, hooks);
  if (!recipient) {
    fail(recipient.error());
    return std::nullopt;
  }
  recipient_ = std::move(*recipient);
  return LoadState{.step = LoadState::Step::begin};
}

std::optional<StateNews> ReplicatedState::Impl::act(Fault& fault) {
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
std::optional<StateNews> ReplicatedState::take(Duration longest) {
  return impl_->take(longest);
}
bool ReplicatedState::may_answer() const {
  return impl_->may_answer();
}

}  // namespace rdmc

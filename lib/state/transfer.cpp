#include "lib/state/transfer.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <utility>

#include "lib/state/inbox.hpp"

namespace rdmc::state {
namespace {

// The first message is the head, and an empty message is the end.

/// Longer writes are cut. The fabric thread of the receiver allocates the memory of a piece, so a piece must
/// not be so long that others take this process for dead meanwhile.
constexpr std::size_t kMostPieceBytes = 256 * 1024;
/// Short writes share a message of at most this length.
constexpr std::size_t kSmallPieceBytes = 64 * 1024;
/// The donor sends another message while fewer than this many are not received.
constexpr std::size_t kMostMessages = 8;

MemberGroupOptions options_for(MemberId donor) {
  MemberGroupOptions options;
  options.group.block_bytes = kUsualBlockBytes;
  options.first_members = 2;
  options.root = [donor](const View&) { return donor; };
  return options;
}

}  // namespace

GroupNumber group_of(GroupNumber state, std::uint32_t transfer) {
  return GroupNumber{std::uint64_t{1} << 63 | value_of(state) << 32 | transfer};
}

// -- The donor --

class Donor::Impl {
 public:
  explicit Impl(const Bytes& head) { waiting_.push_back(std::make_shared<Bytes>(head)); }

  Result<void> open(Membership& membership, GroupNumber number) {
    MemberGroupCallbacks on;
    on.continued = [this](const GroupView& view) {
      const std::lock_guard lock(mutex_);
      has_begun_ = has_begun_ || view.members.size() == 2;
      send();
    };
    on.reusable = [this](std::uint64_t message) {
      const std::lock_guard lock(mutex_);
      const auto found = sent_.find(message);
      if (found == sent_.end()) return;
      if (message != head_ && !is_over_) waiting_bytes_ -= found->second->size();
      sent_.erase(found);
      send();
    };
    on.ended = [this](const Error&) { abandon(); };
    auto group = membership.create_group(number, options_for(membership.id()), std::move(on));
    if (!group) return std::unexpected(group.error());
    const std::lock_guard lock(mutex_);
    group_ = std::move(*group);
    send();
    return {};
  }

  void abandon() {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    waiting_.clear();
    waiting_bytes_ = 0;
  }

  /// If two threads call this function, the second one waits until the group does not use the messages any
  /// more.
  void close() {
    abandon();
    const std::lock_guard closing(close_mutex_);
    std::unique_ptr<MemberGroup> group;
    {
      const std::lock_guard lock(mutex_);
      group = std::move(group_);
    }
    group.reset();
    const std::lock_guard lock(mutex_);
    sent_.clear();
  }

  void add(Bytes bytes) {
    const std::lock_guard lock(mutex_);
    if (is_over_ || is_finished_) return;
    is_finished_ = bytes.empty();
    waiting_bytes_ += bytes.size();
    Bytes* const last = waiting_.empty() ? nullptr : waiting_.back().get();
    const bool is_bytes = !bytes.empty() && last != nullptr && (head_ || waiting_.size() > 1);
    if (is_bytes && last->size() + bytes.size() <= kSmallPieceBytes)
      last->insert(last->end(), bytes.begin(), bytes.end());
    else
      waiting_.push_back(std::make_shared<Bytes>(std::move(bytes)));
    send();
  }

  std::size_t waiting_bytes() const {
    const std::lock_guard lock(mutex_);
    return waiting_bytes_;
  }

 private:
  void send() {
    while (group_ && has_begun_ && !waiting_.empty() && sent_.size() < kMostMessages) {
      const auto number = group_->send(*waiting_.front());
      if (!number) return;  // It is tried again at the next upcall.
      if (!head_) head_ = *number;
      sent_[*number] = std::move(waiting_.front());
      waiting_.pop_front();
    }
  }

  std::mutex close_mutex_;  // locked before mutex_
  mutable std::mutex mutex_;
  std::unique_ptr<MemberGroup> group_;
  bool has_begun_ = false, is_finished_ = false, is_over_ = false;
  std::deque<std::shared_ptr<Bytes>> waiting_;
  std::map<std::uint64_t, std::shared_ptr<const Bytes>> sent_;
  std::optional<std::uint64_t> head_;  ///< the number of the first message
  std::size_t waiting_bytes_ = 0;      ///< without the head
};

Result<std::unique_ptr<Donor>> Donor::open(Membership& membership, GroupNumber number, const Bytes& head) {
  auto impl = std::make_shared<Impl>(head);
  if (auto opened = impl->open(membership, number); !opened) return std::unexpected(opened.error());
  return std::unique_ptr<Donor>(new Donor(std::move(impl)));
}

Donor::~Donor() {
  close();
}

void Donor::close() {
  impl_->close();
}

void Donor::abandon() {
  impl_->abandon();
}

void Donor::write(Bytes bytes) {
  if (bytes.size() <= kMostPieceBytes) {
    if (!bytes.empty()) impl_->add(std::move(bytes));
    return;
  }
  for (std::span<const std::byte> rest(bytes); !rest.empty();) {
    const auto piece = rest.first(std::min(rest.size(), kMostPieceBytes));
    impl_->add(Bytes(piece.begin(), piece.end()));
    rest = rest.subspan(piece.size());
  }
}

void Donor::finish() {
  impl_->add({});
}

std::size_t Donor::waiting_bytes() const {
  return impl_->waiting_bytes();
}

// -- The recipient --

class Recipient::Impl {
 public:
  explicit Impl(Hooks hooks) : hooks_(std::move(hooks)) {}

  Result<void> open(Membership& membership, GroupNumber number, MemberId donor) {
    MemberGroupCallbacks on;
    on.incoming = [this](std::uint64_t, std::uint64_t bytes) {
      const bool has_room = hooks_.has_room();
      const std::lock_guard lock(mutex_);
      return inbox_.incoming(bytes, has_room);
    };
    on.delivered = [this](std::uint64_t message, std::span<std::byte> bytes) {
      std::shared_ptr<const Bytes> piece;
      {
        const std::lock_guard lock(mutex_);
        piece = inbox_.delivered(message, bytes);
      }
      on_piece(piece);
    };
    on.reusable = [this](std::uint64_t message) {
      const std::lock_guard lock(mutex_);
      inbox_.reusable(message);
    };
    on.continued = [this, donor](const GroupView& view) {
      {
        const std::lock_guard lock(mutex_);
        inbox_.continued();
      }
      if (std::ranges::find(view.members, donor) == view.members.end()) fail();
    };
    on.ended = [this](const Error&) { fail(); };
    on.installed = [this, donor](const View& view) {
      if (view.find(donor) == nullptr) fail();
    };
    auto group = membership.create_group(number, options_for(donor), std::move(on));
    if (!group) return std::unexpected(group.error());
    const std::lock_guard lock(mutex_);
    group_ = std::move(*group);
    return {};
  }

  void close() {
    std::unique_ptr<MemberGroup> group;
    {
      const std::lock_guard lock(mutex_);
      group = std::move(group_);
    }
  }

  void give_room() {
    if (!hooks_.has_room()) return;
    const std::lock_guard lock(mutex_);
    if (!group_) return;
    inbox_.post_buffers(
        [this](std::span<std::byte> buffer) { return group_->post_receive_buffer(buffer).has_value(); });
  }
  bool has_begun() const { return has_head_; }

 private:
  void on_piece(const std::shared_ptr<const Bytes>& piece) {
    if (!piece || is_over()) return;
    if (!has_head_.exchange(true)) {
      auto head = decode_snapshot_head(*piece);
      if (!head) return fail();
      hooks_.begun(std::move(*head));
    } else if (!piece->empty()) {
      hooks_.got(piece);
    } else {
      if (set_over()) hooks_.ended();
    }
  }

  bool is_over() const {
    const std::lock_guard lock(mutex_);
    return is_over_;
  }
  bool set_over() {
    const std::lock_guard lock(mutex_);
    return !std::exchange(is_over_, true);
  }
  void fail() {
    if (set_over()) hooks_.failed();
  }

  const Hooks hooks_;
  mutable std::mutex mutex_;
  std::unique_ptr<MemberGroup> group_;
  Inbox inbox_{kMostPieceBytes};
  std::atomic<bool> has_head_ = false;
  bool is_over_ = false;
};

Result<std::unique_ptr<Recipient>> Recipient::open(Membership& membership, GroupNumber number, MemberId donor,
                                                   Hooks hooks) {
  auto impl = std::make_shared<Impl>(std::move(hooks));
  if (auto opened = impl->open(membership, number, donor); !opened) return std::unexpected(opened.error());
  return std::unique_ptr<Recipient>(new Recipient(std::move(impl)));
}

Recipient::~Recipient() {
  impl_->close();
}

void Recipient::give_room() {
  impl_->give_room();
}
bool Recipient::has_begun() const {
  return impl_->has_begun();
}

}  // namespace rdmc::state

#include "lib/socket/group_end.hpp"

#include <algorithm>
#include <cerrno>
#include <new>

namespace rdmc::sockets {

GroupEnd::Memory::Memory(std::size_t size) {
  if (size < kInPages) {
    small_ = std::make_unique_for_overwrite<std::byte[]>(size);
    bytes_ = {small_.get(), size};
    return;
  }
  auto pages = memory::Arena::make(size, memory::Touch::when_used);
  if (!pages) throw std::bad_alloc();
  pages_ = std::move(*pages);
  bytes_ = pages_.bytes().first(size);
}

Answer GroupEnd::check_send(std::size_t bytes) {
  if (state_ == State::joining) return std::unexpected(EAGAIN);
  if (const int error = take_error()) return std::unexpected(error);
  if (state_ == State::idle) return std::unexpected(ENOTCONN);
  if (!is_root_) return std::unexpected(EOPNOTSUPP);
  if (state_ == State::ended) return std::unexpected(EPIPE);
  if (bytes > kMostMessageBytes) return std::unexpected(EMSGSIZE);
  if (!kept_.empty() && kept_bytes_ + charge(bytes) > kMostKept) return std::unexpected(EAGAIN);
  return bytes;
}

std::expected<Endpoint::Draft, int> GroupEnd::begin_send(std::size_t bytes) {
  if (const Answer may = check_send(bytes); !may) return std::unexpected(may.error());
  const auto memory = std::make_shared<Memory>(bytes);
  return Draft{.owner = memory, .bytes = *memory};
}

Answer GroupEnd::end_send(Draft draft) {
  const Answer may = check_send(draft.bytes.size());
  if (!may) return may;
  kept_.push_back(std::static_pointer_cast<Memory>(std::move(draft.owner)));
  try {
    if (on_send) on_send();  // The callback only notes the message, and reads it later under the lock.
  } catch (const std::bad_alloc&) {
    kept_.pop_back();
    throw;
  }
  kept_bytes_ += charge(*may);
  ++next_;
  return may;
}

std::expected<Endpoint::Message, int> GroupEnd::take(bool peek) {
  while (take_event()) {
  }
  if (!received_.empty()) {
    const Bytes bytes = received_.front().bytes;
    if (!peek) {
      received_.pop_front();
      if (on_room) on_room(charge(bytes->size()));
    }
    return Message{.owner = bytes, .bytes = *bytes};
  }
  if (const int error = take_error()) return std::unexpected(error);
  if (state_ == State::idle) return std::unexpected(ENOTCONN);
  if (state_ == State::ended) return Message{};
  return std::unexpected(EAGAIN);
}

std::size_t GroupEnd::unread() const {
  const auto oldest =
      std::ranges::find_if(received_, [](const Received& one) { return one.bytes != nullptr; });
  return oldest == received_.end() ? 0 : oldest->bytes->size();
}

std::optional<rdmc_member_event> GroupEnd::take_event() {
  if (received_.empty() || received_.front().bytes != nullptr) return std::nullopt;
  const rdmc_member_event event = received_.front().event;
  received_.pop_front();
  --events_;
  return event;
}

void GroupEnd::want_events(bool wanted) {
  if (!(wants_events_ = wanted))
    events_ -= std::erase_if(received_, [](const Received& one) { return !one.bytes; });
}

short GroupEnd::events() const {
  int events = 0;
  if (error_ != 0) events |= kFailed;
  if (!received_.empty() || state_ == State::ended) events |= kReadable;
  if (state_ == State::ended) events |= kPeerEnded | kHungUp;
  if (state_ == State::open && kept_bytes_ <= kMostKept / 3 * 2) events |= kWritable;
  return static_cast<short>(events);
}

void GroupEnd::begin(bool root) {
  is_root_ = root;
  state_ = root ? State::open : State::joining;
  members = root ? 1 : 0;
  changed();
}

void GroupEnd::open(std::uint64_t next) {
  if (state_ != State::joining) return;
  state_ = State::open;
  next_ = next;
  changed();
}

void GroupEnd::end(int error) {
  if (state_ == State::ended) return;
  state_ = State::ended;
  error_ = error;
  changed();
}

void GroupEnd::on_event(const rdmc_member_event& event) {
  if (!wants_events_) return;
  received_.push_back({.bytes = nullptr, .event = event});
  if (++events_ > kMostEvents) {
    const auto is_event = [](const Received& one) { return one.bytes == nullptr; };
    const auto oldest = std::ranges::find_if(received_, is_event);
    std::find_if(oldest + 1, received_.end(), is_event)->event.missed += oldest->event.missed + 1;
    received_.erase(oldest);
    --events_;
  }
  changed(true);
}

bool GroupEnd::on_message(std::uint64_t number, Bytes bytes) {
  // The message has arrived in an earlier view already.
  if (number < next_ || state_ != State::open) return false;
  next_ = number + 1;
  received_.push_back({.bytes = std::move(bytes), .event = {}});
  changed(true);
  return true;
}

std::deque<GroupEnd::Bytes> GroupEnd::on_stable(std::uint64_t number) {
  std::deque<Bytes> gone;
  if (number <= first_) return gone;
  for (; first_ < number && !kept_.empty(); ++first_) {
    gone.push_back(kept_.front());
    kept_bytes_ -= charge(gone.back()->size());
    kept_.pop_front();
  }
  changed();
  return gone;
}

}  // namespace rdmc::sockets

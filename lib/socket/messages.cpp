#include "lib/socket/messages.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <utility>

#include "dataplane/base/bytes.hpp"

namespace rdmc::sockets {
namespace {

constexpr std::size_t kLengthBytes = 4;
/// The greatest length of a message that may wait in the stream. Such a message fits into the window wherever
/// in the window it begins, because at least three quarters of the window are granted at any time.
constexpr std::size_t kMostWaiting = Stream::kWindowBytes / 2;

}  // namespace

void Messages::follow(std::shared_ptr<Stream> stream) {
  stream_ = std::move(stream);
  stream_->watch(this);
  end_message();
}

Answer Messages::check_send(std::size_t bytes) {
  if (stream_->state() == Stream::State::connecting) return std::unexpected(EAGAIN);
  if (const int error = stream_->take_error()) return std::unexpected(error);
  if (!stream_->has_been_open()) return std::unexpected(ENOTCONN);
  if (bytes > kMostBytes) return std::unexpected(EMSGSIZE);
  return stream_->check_send_whole(kLengthBytes + bytes);
}

Answer Messages::send(std::span<const std::byte> bytes) {
  const Answer may = check_send(bytes.size());
  if (!may) return may;
  std::array<std::byte, kLengthBytes> head;
  store_be(head.data(), static_cast<std::uint32_t>(bytes.size()));
  const Answer sent = stream_->send_whole(head, bytes);
  return sent ? Answer(bytes.size()) : sent;
}

std::expected<Endpoint::Draft, int> Messages::begin_send(std::size_t bytes) {
  if (const Answer may = check_send(bytes); !may) return std::unexpected(may.error());
  const auto message = std::make_shared<ByteQueue>();
  message->make_room(kLengthBytes + bytes);
  store_be(message->extend(kLengthBytes).data(), static_cast<std::uint32_t>(bytes));
  return Draft{.owner = message, .bytes = message->extend(bytes)};
}

Answer Messages::end_send(Draft draft) {
  const std::size_t bytes = draft.bytes.size();
  if (const Answer may = check_send(bytes); !may) return may;
  const Answer sent = stream_->send_whole(std::move(*std::static_pointer_cast<ByteQueue>(draft.owner)));
  return sent ? Answer(bytes) : sent;
}

/// Returns why there is no message: an error, or 0 if no message will come any more. Returns nullopt if there
/// is a message.
std::optional<Answer> Messages::why_no_message() {
  if (const int error = stream_->take_error()) return std::unexpected(error);
  if (has_message()) return std::nullopt;
  if (stream_->state() == Stream::State::connecting) return std::unexpected(EAGAIN);
  if (!stream_->has_been_open()) return std::unexpected(ENOTCONN);
  if (has_ended()) return 0;
  return std::unexpected(EAGAIN);
}

Answer Messages::receive(std::span<std::byte> out, bool peek) {
  if (const auto answer = why_no_message()) return *answer;
  const std::size_t length = *length_, wanted = std::min(length, out.size());
  const std::size_t here = std::min(kept(), wanted);
  if (here > 0) std::copy_n(begun_->begin(), here, out.begin());
  if (wanted > here) (void)stream_->receive(out.subspan(here, wanted - here), peek);
  if (peek) return length;
  for (std::size_t rest = length - std::max(wanted, kept()); rest > 0;) {
    std::array<std::byte, 1024> dropped;
    rest -= *stream_->receive(std::span(dropped).first(std::min(rest, dropped.size())));
  }
  end_message();
  return length;
}

std::expected<Endpoint::Message, int> Messages::take(bool peek) {
  if (const auto answer = why_no_message()) {
    if (!*answer) return std::unexpected(answer->error());
    return Message{};
  }
  gather(*length_);
  const Message message{.owner = begun_, .bytes = *begun_};
  if (!peek) end_message();
  return message;
}

void Messages::end_message() {
  forget();
  look();
}

/// Moves bytes from the stream until `begun_` has the first `length` bytes of the message.
void Messages::gather(std::size_t length) {
  if (begun_ == nullptr) begun_ = std::make_shared<std::vector<std::byte>>();
  const std::size_t more = length - begun_->size();
  begun_->resize(length);
  if (more > 0) (void)stream_->receive(std::span(*begun_).last(more));
}

void Messages::forget() {
  length_.reset();
  begun_.reset();
  share_.give_back();
}

/// Reads the length of the next message from the stream. Also takes the arrived bytes of a long message out
/// of the stream, because they must not wait there.
void Messages::look() {
  if (!length_ && stream_->available() >= kLengthBytes) {
    std::array<std::byte, kLengthBytes> head;
    (void)stream_->receive(head);
    length_ = load_be<std::uint32_t>(head.data());
    if (*length_ > kMostBytes) {  // no correct peer sends this length
      length_.reset();
      return stream_->abandon(EPROTO);
    }
  }
  if (!length_ || *length_ <= kMostWaiting || stream_->state() == Stream::State::closed) return;
  const std::size_t more = std::min(stream_->available(), *length_ - kept());
  if (more == 0 || keep(more)) return;
  begun_.reset();
  share_.give_back();
  stream_->abandon(ENOBUFS);
}

/// Moves `more` bytes of a message out of the stream. Returns false if there is no memory for them.
bool Messages::keep(std::size_t more) {
  const std::size_t all = kept() + more;
  try {
    if (begun_ == nullptr) begun_ = std::make_shared<std::vector<std::byte>>();
    // The length is only the peer's claim. So if more than one window is kept, the memory is at most twice
    // the bytes that have arrived.
    if (const std::size_t before = begun_->capacity(); all > before) {
      const std::size_t room = std::min(*length_, std::max(2 * all, Stream::kWindowBytes));
      if (stream_->outlet() != nullptr && !share_.grow(stream_->outlet()->budget(), room - before))
        return false;
      begun_->reserve(room);
    }
    gather(all);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

void Messages::on_change(bool data) {
  const bool was_whole = has_message();
  look();
  if (watcher_ != nullptr) watcher_->on_change(data && !was_whole && has_message());
}

void Messages::close(bool abort) {
  watcher_ = nullptr;
  stream_->close(abort || length_);
  begun_.reset();
  share_.give_back();
}

short Messages::events() const {
  int events = stream_->events() & (kWritable | kFailed | kHungUp);
  if ((stream_->shut() & Stream::kShutRead) != 0) events |= kReadable | kPeerEnded;
  if (has_message()) events |= kReadable;
  return static_cast<short>(events);
}

}  // namespace rdmc::sockets

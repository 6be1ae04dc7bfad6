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
/// Of such messages a window has room for the whole, wherever in it they begin: three quarters of it are
/// granted at any time.
constexpr std::size_t kMostWaiting = Stream::kWindowBytes / 2;

}  // namespace

void Messages::follow(std::shared_ptr<Stream> stream) {
  stream_ = std::move(stream);
  stream_->watch(this);
  length_.reset();
  begun_.clear();
  kept_.give_back();
  look();
}

Answer Messages::send(std::span<const std::byte> bytes) {
  if (stream_->state() == Stream::State::connecting) return std::unexpected(EAGAIN);
  if (const int error = stream_->take_error()) return std::unexpected(error);
  if (!stream_->has_been_open()) return std::unexpected(ENOTCONN);
  if (bytes.size() > kMostBytes) return std::unexpected(EMSGSIZE);
  std::array<std::byte, kLengthBytes> head;
  store_be(head.data(), static_cast<std::uint32_t>(bytes.size()));
  if (auto sent = stream_->send_whole(head, bytes); !sent) return sent;
  return bytes.size();
}

Answer Messages::receive(std::span<std::byte> out, bool peek) {
  if (const int error = stream_->take_error()) return std::unexpected(error);
  if (!has_message()) {
    if (stream_->state() == Stream::State::connecting) return std::unexpected(EAGAIN);
    if (!stream_->has_been_open()) return std::unexpected(ENOTCONN);
    if (has_ended()) return 0;
    return std::unexpected(EAGAIN);
  }
  const std::size_t length = *length_, wanted = std::min(length, out.size());
  const std::size_t kept = std::min(begun_.size(), wanted);
  std::copy_n(begun_.begin(), kept, out.begin());
  if (wanted > kept) (void)stream_->receive(out.subspan(kept, wanted - kept), peek);
  if (peek) return length;
  for (std::size_t rest = length - std::max(wanted, begun_.size()); rest > 0;) {
    std::array<std::byte, 1024> dropped;
    rest -= *stream_->receive(std::span(dropped).first(std::min(rest, dropped.size())));
  }
  length_.reset();
  begun_ = {};
  kept_.give_back();
  look();
  return length;
}

/// Takes the next message's head, and whatever of it must not wait in the stream.
void Messages::look() {
  if (!length_ && stream_->available() >= kLengthBytes) {
    std::array<std::byte, kLengthBytes> head;
    (void)stream_->receive(head);
    length_ = load_be<std::uint32_t>(head.data());
    if (*length_ > kMostBytes) {  // no peer of ours says that
      length_.reset();
      return stream_->abandon(EPROTO);
    }
  }
  if (!length_ || *length_ <= kMostWaiting || stream_->state() == Stream::State::closed) return;
  const std::size_t more = std::min(stream_->available(), *length_ - begun_.size());
  if (more == 0) return;
  if (!keep(more)) {
    begun_ = {};
    kept_.give_back();
    return stream_->abandon(ENOBUFS);
  }
  (void)stream_->receive(std::span(begun_).last(more));
}

/// Makes room for so many bytes more of a message. False: there is none.
bool Messages::keep(std::size_t more) {
  if (stream_->outlet() != nullptr && !kept_.grow(stream_->outlet()->budget(), more)) return false;
  try {
    begun_.resize(begun_.size() + more);
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
  begun_ = {};
  kept_.give_back();
}

short Messages::events() const {
  int events = stream_->events() & (kWritable | kFailed | kHungUp);
  if ((stream_->shut() & Stream::kShutRead) != 0) events |= kReadable | kPeerEnded;
  if (has_message()) events |= kReadable;
  return static_cast<short>(events);
}

}  // namespace rdmc::sockets

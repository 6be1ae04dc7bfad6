// Copies between an application's memory and the library's memory. The lock is never held while a call waits
// for a page of the application's memory (see callers_memory.hpp), or while a call copies many bytes.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/socket/message_delivery.hpp"
#include "lib/socket/stack.hpp"

namespace rdmc::sockets {
namespace {

/// How often a reader tries to copy the bytes of an advert if the writer cancels the advert each time. Then
/// the reader returns with the bytes that it has.
constexpr int kTries = 4;

}  // namespace

/// Sends as many bytes as there is space for. `is_touched` is true if the caller has just touched the first
/// kMostCopied bytes.
Answer Stack::send_some(Lock& lock, Socket& socket, std::span<const std::byte> bytes, bool is_touched,
                        const void* caller) {
  if (is_touched && bytes.size() <= kMostBounced) return socket.send(bytes, caller);
  const auto stream = socket.stream();
  if (Endpoint* const endpoint = socket.endpoint()) {
    if (bytes.size() > Stream::kMostCopied) return send_draft(lock, *endpoint, bytes);
  } else if (auto copy = stream->begin_copy(bytes.size())) {
    {
      const Unlocked unlocked(lock);
      std::memcpy(copy->copy, bytes.data(), copy->bytes.size());
    }
    return stream->end_copy(std::move(*copy));
  }
  bool lends = stream->would_lend(bytes.size(), caller);
  if (is_touched && (!lends || bytes.size() <= Stream::kMostCopied)) return socket.send(bytes, caller);
  do {
    lends = stream->would_lend(bytes.size(), caller);
    const Unlocked unlocked(lock);
    touch(lends ? bytes.last(Stream::kBehindAdvert)
                : bytes.first(std::min(bytes.size(), Stream::kMostCopied)));
  } while (lends != stream->would_lend(bytes.size(), caller));
  return socket.send(bytes, caller);
}

Answer Stack::send_draft(Lock& lock, Endpoint& endpoint, std::span<const std::byte> bytes) {
  auto draft = endpoint.begin_send(bytes.size());
  if (!draft) return std::unexpected(draft.error());
  {
    const Unlocked unlocked(lock);
    std::ranges::copy(bytes, draft->bytes.begin());
  }
  return endpoint.end_send(std::move(*draft));
}

/// Copies the bytes that a peer's call lends, in pieces and without the lock. A piece is copied only if its
/// pages are present, because an absent page could block this thread for ever.
std::size_t Stack::receive_lent(Lock& lock, Stream& stream, std::span<std::byte> out, std::size_t peeked,
                                bool peek) {
  std::size_t done = 0;
  for (int tries = 0; tries < kTries && done < out.size();) {
    const auto loan = stream.lent(out.size() - done, peeked);
    if (!loan) break;
    const auto& [memory, address, count, terms, is_all] = loan->bytes;
    bool is_present = false;
    std::size_t copied = 0;
    {
      const Unlocked unlocked(lock);
      is_present = memory->is_present(address, count);
      if (is_present) copied = memory->read(address, out.subspan(done, count));
    }
    if (!is_present) {
      stream.decline(*loan);
      break;
    }
    const std::size_t counted = stream.settle(*loan, copied, peek);
    done += counted;
    if (peek && counted != 0) break;
    if (counted == 0) ++tries;
  }
  return done;
}

/// Returns memory into which the available bytes can be received under the lock. If there are few bytes, this
/// is the bounce buffer. Otherwise it is the first part of `out`, whose pages this function touches. Bytes
/// that arrive meanwhile stay for later. The memory has space for one byte more than what is available. This
/// shows a writer that lends bytes that these bytes are wanted, too.
std::span<std::byte> Stack::make_room(Lock& lock, const Socket& socket, std::span<std::byte> out,
                                      Bounce& bounce) {
  if (!bounce.is_empty()) {
    const Unlocked unlocked(lock);
    bounce.deliver();
  }
  if (out.size() <= kMostBounced) return bounce.room(out.size());
  for (std::size_t touched = bounce.take_touched(out);;) {
    const std::size_t here = std::min(out.size(), socket.unread() + 1);
    if (touched == 0 && here <= kMostBounced) return bounce.room(out.size());
    if (here <= touched) return out.first(touched);
    const Unlocked unlocked(lock);
    touch_for_writing(out.first(here));
    touched = here;
  }
}

Answer Stack::receive_some(Lock& lock, Socket& socket, std::span<std::byte> out, bool peek, Bounce& bounce) {
  std::size_t done = 0;
  while (!peek && done < out.size()) {
    auto chunk = socket.stream()->take_chunk(out.size() - done);
    if (!chunk) break;
    const auto stream = socket.stream();  // The socket may get another stream while the lock is released.
    {
      const Unlocked unlocked(lock);
      std::memcpy(out.data() + done, chunk->bytes.data(), chunk->bytes.size());
    }
    done += chunk->bytes.size();
    stream->count_copied(chunk->bytes.size());
    stream->give_back(std::move(*chunk->slot));
  }
  if (done != 0) return done;
  const auto room = make_room(lock, socket, out, bounce);
  const Answer got = socket.receive(room, peek);
  bounce.keep(room, out, got.value_or(0));
  if (!got && got.error() != EAGAIN) return got;
  done = got.value_or(0);
  if (done == out.size() || !socket.stream()->may_be_lent()) return got;
  const auto stream = socket.stream();
  done += receive_lent(lock, *stream, out.subspan(done), peek ? done : 0, peek);
  return done != 0 ? Answer(done) : got;
}

/// Receives a message, or the member event before the next message. The socket gives up a long message under
/// the lock, and its bytes are copied without the lock.
Answer Stack::receive_whole(Lock& lock, const Held& held, std::span<std::byte> out, int flags, int* said,
                            std::optional<rdmc_member_event>* event, Bounce& bounce) {
  if (held->group) held->group->want_events(event != nullptr);
  Socket& socket = held->socket;
  const bool peek = (flags & MSG_PEEK) != 0;
  Endpoint::Message message;
  bool is_message = false;  // False if no message will come any more.
  const auto got =
      until_done(lock, held, may_wait(*held, flags), deadline_of(held->receive_timeout), [&]() -> Answer {
        if (event != nullptr && held->group && (*event = held->group->take_event())) return 0;
        const bool is_long = socket.unread() > Stream::kMostCopied;
        const auto room = is_long ? out : make_room(lock, socket, out, bounce);
        is_message = socket.has_message();
        if (!is_long) {
          const Answer length = socket.receive(room, peek);
          bounce.keep(room, out, length.value_or(0));
          return length;
        }
        auto taken = socket.take_message(peek);
        if (!taken) return std::unexpected(taken.error());
        message = std::move(*taken);
        return message.bytes.size();
      });
  if (!got) return got;
  if (event != nullptr && *event) return *said = MSG_OOB, 0;
  std::size_t copied = std::min(*got, out.size());
  if (!message.bytes.empty()) {
    const ByPages by_pages{.least_bytes = options_.least_hand_off,
                           .patience = may_wait(*held, flags) ? copy_time(copied) : Duration{}};
    // The lock is held again afterwards, because the last owner of a socket must destroy it with the lock.
    const Unlocked unlocked(lock);
    // A message that was peeked stays in the queue, so the queue is another owner.
    const bool may_hand_off = (flags & MSG_ZEROCOPY) != 0 && !peek;
    copied = may_hand_off ? deliver(std::move(message), out, by_pages) : deliver(std::move(message), out);
  }
  if (held->group) socket.stream()->count_copied(copied);
  if (said != nullptr) *said = *got > out.size() ? MSG_TRUNC : is_message ? MSG_EOR : 0;
  return (flags & MSG_TRUNC) != 0 ? *got : std::min(*got, out.size());
}

}  // namespace rdmc::sockets

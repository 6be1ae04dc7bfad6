// The message endpoint, which sends and receives messages for a socket. It is the end of a connection
// (Messages), or a member of a group (GroupEnd). The caller must hold the sockets' lock, and no function
// blocks. A message may be long, so its bytes are copied without the lock: into a draft before the message is
// sent, and out of a Message after it was received.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "lib/socket/stream.hpp"

namespace rdmc::sockets {

class Endpoint {
 public:
  virtual ~Endpoint() = default;
  /// From now on, reports changes to `watcher`. Null means no watcher.
  virtual void watch(Watcher* watcher) = 0;

  /// Sends all of `bytes` or nothing.
  virtual Answer send(std::span<const std::byte> bytes);
  /// A message before it is sent. The caller fills `bytes`, which is memory of the endpoint with undefined
  /// values at first.
  struct Draft {
    std::shared_ptr<void> owner;
    std::span<std::byte> bytes;
  };
  /// Begins to send a message that is longer than Stream::kMostCopied. Returns a draft. Errors: those of
  /// send().
  virtual std::expected<Draft, int> begin_send(std::size_t bytes) = 0;
  /// Sends the whole draft from begin_send(), or nothing.
  virtual Answer end_send(Draft draft) = 0;

  /// Copies the first out.size() bytes of the oldest message, drops the rest of this message, and returns the
  /// length of the whole message. With `peek`, the message stays in the queue. Returns 0 for an empty
  /// message, or if no message will come any more.
  virtual Answer receive(std::span<std::byte> out, bool peek);
  /// Returns the length of the oldest message, or 0 if there is none.
  virtual std::size_t unread() const = 0;
  /// A message that has arrived. If the caller is the only owner of the memory, it may also change the bytes.
  struct Message {
    std::shared_ptr<void> owner;
    std::span<std::byte> bytes;
  };
  /// Returns the oldest message. With `peek`, the message stays in the queue. A message without an owner
  /// means that no message will come any more.
  virtual std::expected<Message, int> take(bool peek) = 0;
  /// True if receive() would return a message.
  virtual bool has_message() const = 0;
  virtual int take_error() = 0;
  virtual void close(bool abort) = 0;
  virtual short events() const = 0;
};

inline Answer Endpoint::send(std::span<const std::byte> bytes) {
  auto draft = begin_send(bytes.size());
  if (!draft) return std::unexpected(draft.error());
  std::ranges::copy(bytes, draft->bytes.begin());
  return end_send(std::move(*draft));
}

inline Answer Endpoint::receive(std::span<std::byte> out, bool peek) {
  const auto message = take(peek);
  if (!message) return std::unexpected(message.error());
  std::ranges::copy(message->bytes.first(std::min(message->bytes.size(), out.size())), out.begin());
  return message->bytes.size();
}

}  // namespace rdmc::sockets

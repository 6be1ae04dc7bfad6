// What sends and receives messages for a socket: the end of a connection (Messages), or a member of a group
// (GroupEnd). Under the sockets' lock; none of it blocks. A message may be long, so its bytes are copied
// without the lock: into a draft before it is sent, and out of what was taken when it is received.
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
  /// Null: nobody waits any more.
  virtual void watch(Watcher* watcher) = 0;

  /// All or nothing.
  virtual Answer send(std::span<const std::byte> bytes);
  /// A message that is about to be sent: `bytes` is memory of ours, of any value at first.
  struct Draft {
    std::shared_ptr<void> owner;
    std::span<std::byte> bytes;
  };
  /// For a message longer than Stream::kMostCopied: a draft, or why it would not be sent.
  virtual std::expected<Draft, int> begin_send(std::size_t bytes) = 0;
  /// Sends all of what begin_send() gave, or nothing.
  virtual Answer end_send(Draft draft) = 0;

  /// The length of the oldest message, whose first out.size() bytes are copied and whose rest is dropped; 0:
  /// an empty message, or no more will come.
  virtual Answer receive(std::span<std::byte> out, bool peek);
  /// The length of the oldest message; 0: there is none, or it is empty.
  virtual std::size_t unread() const = 0;
  /// A message that has come.
  struct Message {
    std::shared_ptr<const void> owner;
    std::span<const std::byte> bytes;
  };
  /// The oldest message, which stays if it is a `peek`. Without an owner: no more will come.
  virtual std::expected<Message, int> take(bool peek) = 0;
  /// receive() would answer with a message.
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

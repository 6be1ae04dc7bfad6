// What sends and receives messages for a socket: the end of a connection (Messages), or a member of a group
// (GroupEnd). Under the sockets' lock; none of it blocks.
#pragma once

#include "lib/socket/stream.hpp"

namespace rdmc::sockets {

class Endpoint {
 public:
  virtual ~Endpoint() = default;
  /// Null: nobody waits any more.
  virtual void watch(Watcher* watcher) = 0;
  /// All or nothing.
  virtual Answer send(std::span<const std::byte> bytes) = 0;
  /// The length of the oldest message, whose first out.size() bytes are copied and whose rest is dropped; 0:
  /// an empty message, or no more will come.
  virtual Answer receive(std::span<std::byte> out, bool peek) = 0;
  /// receive() would answer with a message.
  virtual bool has_message() const = 0;
  virtual int take_error() = 0;
  virtual void close(bool abort) = 0;
  virtual short events() const = 0;
};

}  // namespace rdmc::sockets

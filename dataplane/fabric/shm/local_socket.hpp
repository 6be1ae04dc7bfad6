// The Unix sockets of the shm handshake between two fabrics of one host. They carry messages with
// descriptors. If one end is closed, the process at that end or its queue pair is gone. The addresses of the
// sockets are in the abstract namespace, which belongs to a network namespace. So a process in another
// network namespace cannot be reached. No call blocks. Owned by the fabric and its queue pairs; used by one
// thread.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/fabric/shm/shm_blob.hpp"

namespace rdmc::fabric::shm {

enum class MessageKind : std::uint32_t {
  /// Introduces a queue pair. The descriptors are those of its QueueMemory and Doorbell. `a` is the address
  /// of a random number in the sender's memory, and `b` is this number.
  hello = 1,
  /// Announces an arena. The descriptor is that of its pages. `a` is its number, and `b` is its length.
  arena,
  ring,    ///< Wakes the receiver, because there is something new in the QueueMemory.
  forget,  ///< Withdraws the arena with the number `a`. Nothing will be read from it any more.
  /// Shares memory that both sides may write. The descriptor is that of the memory. `a` is its length.
  pages,
};

struct Message {
  MessageKind kind{};
  std::uint32_t reserved = 0;
  Token to{}, from{};  ///< For hello: the tokens of the receiving and of the sending queue pair.
  std::uint64_t a = 0, b = 0;
};

class LocalSocket {
 public:
  static constexpr std::size_t kMostDescriptors = 2;

  struct Received {
    Message message;
    std::array<Descriptor, kMostDescriptors> descriptors;
  };

  LocalSocket() = default;
  /// Connects to the listener of that name. Errors: would_block if the listener's queue is full (try again),
  /// peer_failed if no process listens there, permission_denied if the process belongs to another user.
  static Result<LocalSocket> dial(const Token& listener);

  const Descriptor& descriptor() const { return socket_; }
  explicit operator bool() const { return static_cast<bool>(socket_); }
  pid_t process() const { return process_; }
  /// A pidfd, which is readable once the peer's process has ended. Empty if the kernel has no pidfds. The
  /// socket alone does not show the end of the process, because a child of the process may still hold the
  /// socket open.
  const Descriptor& process_end() const { return process_end_; }

  /// Sends a message with descriptors. Returns false if there is no space now. Errors: peer_failed.
  Result<bool> send(const Message& message, std::span<const int> descriptors) const;
  /// Receives the next message. Returns nullopt if no message has arrived. Errors: peer_failed if the peer is
  /// gone, protocol_error.
  Result<std::optional<Received>> receive() const;
  /// True if the peer has closed its end or its process has ended. Messages may still be unread.
  bool is_hung_up() const;
  bool has_process_ended() const;
  /// Closes the socket. The peer sees the end.
  void close() {
    socket_.reset();
    process_end_.reset();
  }

 private:
  friend class LocalListener;
  LocalSocket(Descriptor socket, pid_t process, Descriptor process_end)
      : socket_(std::move(socket)), process_(process), process_end_(std::move(process_end)) {}
  static Result<LocalSocket> checked(Descriptor socket);

  Descriptor socket_;
  pid_t process_ = 0;
  Descriptor process_end_;
};

class LocalListener {
 public:
  /// Opens a listener with this name. Errors: already_exists, resource_limit, permission_denied.
  static Result<LocalListener> open(const Token& name);

  const Descriptor& descriptor() const { return socket_; }
  /// Accepts a connection. Returns nullopt if no connection waits. A connection of another user's process is
  /// closed.
  std::optional<LocalSocket> accept() const;

 private:
  explicit LocalListener(Descriptor socket) : socket_(std::move(socket)) {}
  Descriptor socket_;
};

}  // namespace rdmc::fabric::shm

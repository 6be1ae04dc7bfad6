// The Unix sockets of the shm handshake between two fabrics of one host. They carry messages with
// descriptors. When one end closes, the other process or its queue pair is gone. Their addresses are in the
// abstract namespace, which belongs to a network namespace, so a process in another network namespace cannot
// be reached. No call blocks. Owned by the fabric and its queue pairs; used by one thread.
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
  /// Descriptors: QueueMemory, Doorbell. a: the address of a number in the sender's memory; b: this number.
  hello = 1,
  arena,   ///< Descriptor: the arena's pages. a: its number; b: its length in bytes.
  ring,    ///< Wake up: there is something new in the QueueMemory.
  forget,  ///< a: the number of an arena from which nothing will be read any more.
  pages,   ///< Descriptor: memory that both sides may write. a: its length in bytes.
};

struct Message {
  MessageKind kind{};
  std::uint32_t reserved = 0;
  Token to{}, from{};  ///< For hello: the queue pairs.
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
  /// Connects to the listener of that name. Errors: would_block if its queue is full (try again), peer_failed
  /// if no process listens there, permission_denied if the process belongs to another user.
  static Result<LocalSocket> dial(const Token& listener);

  const Descriptor& descriptor() const { return socket_; }
  explicit operator bool() const { return static_cast<bool>(socket_); }
  pid_t process() const { return process_; }
  /// A pidfd, which is readable once the peer's process has ended; empty if the kernel has none. The socket
  /// alone does not show the end of the process, because a child of it may still hold the socket open.
  const Descriptor& process_end() const { return process_end_; }

  /// Returns false if there is no space now. Errors: peer_failed.
  Result<bool> send(const Message& message, std::span<const int> descriptors) const;
  /// Returns nullopt if no message has arrived. Errors: peer_failed if the peer is gone, protocol_error.
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
  /// Errors: already_exists, resource_limit, permission_denied.
  static Result<LocalListener> open(const Token& name);

  const Descriptor& descriptor() const { return socket_; }
  /// Returns nullopt if no connection waits. A connection of another user's process is closed.
  std::optional<LocalSocket> accept() const;

 private:
  explicit LocalListener(Descriptor socket) : socket_(std::move(socket)) {}
  Descriptor socket_;
};

}  // namespace rdmc::fabric::shm

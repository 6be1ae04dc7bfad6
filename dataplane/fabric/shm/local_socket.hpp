// The unix sockets over which two fabrics of one host introduce their queue pairs to each other: messages
// with descriptors, and the end of one is the sign that the other process, or its queue pair, has gone. They
// lie in the abstract namespace, which belongs to a network namespace: who has another is another host. No
// call blocks. Owned by the fabric and its queue pairs; one thread.
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
  hello =
      1,   ///< descriptors: QueueMemory, Doorbell; a, b: where to look for a number in the address space, it
  arena,   ///< descriptor: its pages; a: its number, b: its bytes
  ring,    ///< wake up: there is something in the QueueMemory
  forget,  ///< a: the number of an arena that nothing will come from any more
  pages,   ///< descriptor: memory that both may write; a: its bytes
};

struct Message {
  MessageKind kind{};
  std::uint32_t reserved = 0;
  Token to{}, from{};  ///< hello: queue pairs
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
  /// Connects to the listener of that name. Errors: would_block (it has too many visitors; try again),
  /// peer_failed (nobody listens), permission_denied (a process of another user).
  static Result<LocalSocket> dial(const Token& listener);

  const Descriptor& descriptor() const { return socket_; }
  explicit operator bool() const { return static_cast<bool>(socket_); }
  pid_t process() const { return process_; }
  /// Readable from the end of the process on; none where the kernel does not tell. The socket alone does not
  /// show that end: a process forked from the peer's may hold it open.
  const Descriptor& process_end() const { return process_end_; }

  /// False: no room now. Errors: peer_failed.
  Result<bool> send(const Message& message, std::span<const int> descriptors) const;
  /// Nothing: no message is here. Errors: peer_failed (the other side is gone), protocol_error.
  Result<std::optional<Received>> receive() const;
  /// The other side is gone, or will be once its last messages are read.
  bool is_hung_up() const;
  bool has_process_ended() const;
  /// The other side sees the end.
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
  /// Nothing: nobody waits. A visitor of another user is turned away.
  std::optional<LocalSocket> accept() const;

 private:
  explicit LocalListener(Descriptor socket) : socket_(std::move(socket)) {}
  Descriptor socket_;
};

}  // namespace rdmc::fabric::shm

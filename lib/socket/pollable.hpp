// Makes a descriptor readable, writable and hung up exactly when a socket of this library is, so that epoll,
// poll and io_uring can watch it. The descriptor is one end of a pair of UNIX sockets. A byte that was sent
// to this end makes it readable. A full send buffer makes it not writable. A shutdown of the other end
// appears as the end of the stream. No payload goes through the pair. The caller must hold the sockets' lock.
#pragma once

#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::sockets {

class Pollable {
 public:
  /// Replaces `descriptor` by the end to be polled. The number of the descriptor stays the same. Errors:
  /// resource_limit.
  static Result<Pollable> replace(int descriptor);

  /// Makes the descriptor show `events`, in the bits of poll(2). It cannot show POLLERR; instead the
  /// descriptor becomes readable and writable. With `pulse`, edge-triggered waiters are notified again that
  /// there is something to read. The end of the stream and a hang-up cannot be revoked.
  void show(short events, bool pulse = false);

  /// Makes the descriptor show that the socket is not writable, until the next show().
  void show_not_writable() { set_writable(false); }

 private:
  Pollable(int shown, Descriptor other) : shown_(shown), other_(std::move(other)) {}
  void set_readable(bool readable, bool pulse);
  void set_writable(bool writable);

  int shown_;         // the application's end
  Descriptor other_;  // the library's end
  bool is_readable_ = false, is_writable_ = true, has_ended_ = false, is_hung_up_ = false;
};

}  // namespace rdmc::sockets

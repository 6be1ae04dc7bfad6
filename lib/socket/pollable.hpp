// Makes a descriptor readable, writable and hung up exactly when a socket of this library is, for epoll, poll
// and io_uring. The descriptor is one end of a pair of UNIX sockets. A byte sent to it makes it readable. A
// full send buffer makes it not writable. A shutdown of the other end shows the end of the stream. No payload
// goes through it. The caller must hold the sockets' lock.
#pragma once

#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::sockets {

class Pollable {
 public:
  /// Replaces `descriptor` by the end to be polled. The number of the descriptor stays the same. Errors:
  /// resource_limit.
  static Result<Pollable> replace(int descriptor);

  /// Shows `events`, in the bits of poll(2). POLLERR cannot be shown; instead the descriptor becomes readable
  /// and writable. `pulse`: tells edge-triggered waiters again that there is something to read. An end and a
  /// hang-up cannot be taken back.
  void show(short events, bool pulse = false);

  /// Shows that the socket is not writable, until show() says otherwise.
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

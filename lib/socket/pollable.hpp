// Makes a descriptor readable, writable and hung up as a socket of ours is, for epoll, poll and io_uring. It
// is one end of a pair of UNIX sockets: a byte in it is readable, too many bytes from it make it not
// writable, and the other end's shutdown is the stream's end. No payload goes through it. Under the sockets'
// lock.
#pragma once

#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::sockets {

class Pollable {
 public:
  /// Puts the end to be polled in the place of `descriptor`, which keeps its number. Errors: resource_limit.
  static Result<Pollable> replace(int descriptor);

  /// `events` as poll(2) returns them. POLLERR cannot be shown; it is shown as all others. `pulse`: tells
  /// edge-triggered waiters anew that there is something to read. An end and a hang-up cannot be taken back.
  void show(short events, bool pulse = false);

  /// Until show() says otherwise.
  void show_not_writable() { set_writable(false); }

 private:
  Pollable(int shown, Descriptor other) : shown_(shown), other_(std::move(other)) {}
  void set_readable(bool readable, bool pulse);
  void set_writable(bool writable);

  int shown_;         // the application's
  Descriptor other_;  // ours
  bool is_readable_ = false, is_writable_ = true, has_ended_ = false, is_hung_up_ = false;
};

}  // namespace rdmc::sockets

// A socket that the control loop waits on. Asio watches the socket, and a Descriptor owns it. Internal to
// this folder. It must be used only on the loop's thread.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <utility>

#include "controlplane/connect/loop_core.hpp"
#include "dataplane/base/descriptor.hpp"

namespace rdmc::control {

class LoopSocket {
 public:
  using Wait = boost::asio::posix::stream_descriptor::wait_type;

  explicit LoopSocket(LoopCore& core) : watched_(core.context()) {}
  ~LoopSocket() { close(); }
  LoopSocket(const LoopSocket&) = delete;
  LoopSocket& operator=(const LoopSocket&) = delete;

  /// Takes over `socket` and watches it. If epoll cannot watch one more socket, returns an error, and
  /// `socket` stays with the caller.
  boost::system::error_code take(Descriptor& socket) {
    boost::system::error_code error;
    watched_.assign(socket.get(), error);
    if (!error) owned_ = std::move(socket);
    return error;
  }
  /// Gives the socket back to the caller. A pending wait ends with an error.
  Descriptor release() {
    if (watched_.is_open()) (void)watched_.release();
    return std::move(owned_);
  }
  void close() { (void)release(); }

  bool is_open() const { return watched_.is_open(); }
  int get() const { return owned_.get(); }
  template <typename Handler>
  void async_wait(Wait what, Handler handler) {
    watched_.async_wait(what, std::move(handler));
  }

 private:
  Descriptor owned_;
  boost::asio::posix::stream_descriptor watched_;
};

}  // namespace rdmc::control

// The event bits of poll(2), for code that does not include poll.h. static_asserts in open_socket.cpp check
// that the bits are the same.
#pragma once

namespace rdmc::sockets {

inline constexpr int kReadable = 0x041;    ///< POLLIN | POLLRDNORM
inline constexpr int kWritable = 0x104;    ///< POLLOUT | POLLWRNORM
inline constexpr int kPeerEnded = 0x2000;  ///< POLLRDHUP
inline constexpr int kHungUp = 0x010;      ///< POLLHUP
inline constexpr int kFailed = 0x008;      ///< POLLERR

}  // namespace rdmc::sockets

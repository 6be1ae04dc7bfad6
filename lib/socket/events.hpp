// What poll(2) says of a socket, for code without poll: the same bits, which a driver's static_asserts hold.
#pragma once

namespace rdmc::sockets {

inline constexpr int kReadable = 0x041;    ///< POLLIN | POLLRDNORM
inline constexpr int kWritable = 0x104;    ///< POLLOUT | POLLWRNORM
inline constexpr int kPeerEnded = 0x2000;  ///< POLLRDHUP
inline constexpr int kHungUp = 0x010;      ///< POLLHUP
inline constexpr int kFailed = 0x008;      ///< POLLERR

}  // namespace rdmc::sockets

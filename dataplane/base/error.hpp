// The one error type of the project. Libraries return Result<T>; they never exit, abort, print or throw for
// what a peer, a user or the operating system can cause. `code` is for programs, `what` is for the person who
// reads it and names the thing concerned (a host, a path, an option).
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace rdmc {

enum class Errc : std::uint8_t {
  invalid_argument,   ///< the caller's mistake: a bad option, a length that does not fit, a wrong state
  would_block,        ///< a queue is full now; try again after progress
  not_found,          ///< no such host, file, member
  already_exists,     ///< destination is there and was not to be replaced, or is in use by another transfer
  permission_denied,  ///< the operating system said no
  no_space,           ///< disk or quota full
  io_error,           ///< any other failure of a file or a socket
  unsupported,        ///< this kernel, device or build cannot do it
  authentication,     ///< wrong key, or no proof of one
  version_mismatch,   ///< the peer speaks another version of the protocol
  protocol_error,     ///< the peer broke the protocol
  corrupt,            ///< a digest or checksum does not match
  timed_out,          ///< no answer in the time allowed
  peer_failed,        ///< a member died, was stopped or fell silent
  cancelled,          ///< ended on request
  resource_limit,     ///< memory, descriptors, queue pairs
};

/// The code's name in words, e.g. "no space".
std::string_view name(Errc code) noexcept;

struct Error {
  Errc code;
  std::string what;
};

template <typename T>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> fail(Errc code, std::string what) {
  return std::unexpected(Error{code, std::move(what)});
}

/// The error that `errno_value` stands for, as "WHAT: strerror". ENOSPC and EDQUOT become no_space, EACCES
/// and EPERM permission_denied, ENOENT not_found, and so on.
std::unexpected<Error> fail_errno(std::string_view what, int errno_value);

}  // namespace rdmc

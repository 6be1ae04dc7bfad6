// The only error type of the project. Library functions return Result<T>. They never exit, abort, print or
// throw because of something that a peer, a user or the operating system can cause. `code` is for programs.
// `what` is for people, and it names the host, path or option concerned.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace rdmc {

enum class Errc : std::uint8_t {
  invalid_argument,   ///< a mistake of the caller: a bad option, a length that does not fit, a wrong state
  would_block,        ///< a queue is full now; try again after progress
  not_found,          ///< no such host, file or member
  already_exists,     ///< the destination exists and must not be replaced, or another transfer uses it
  permission_denied,  ///< the operating system refused permission
  no_space,           ///< the disk or the quota is full
  io_error,           ///< any other failure of a file or a socket
  unsupported,        ///< this kernel, device or build cannot do it
  authentication,     ///< the key is wrong, or the peer did not prove that it has a key
  version_mismatch,   ///< the peer speaks another version of the protocol
  protocol_error,     ///< the peer broke the protocol
  corrupt,            ///< a digest or checksum does not match
  timed_out,          ///< no answer within the time limit
  peer_failed,        ///< a member died, was stopped or became silent
  cancelled,          ///< the operation was cancelled on request
  resource_limit,     ///< too little memory, too few descriptors or queue pairs
};

/// The name of the code for people, for example "no space".
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

/// Makes the error for `errno_value`, with the text "WHAT: strerror". ENOSPC and EDQUOT become no_space,
/// EACCES and EPERM become permission_denied, ENOENT becomes not_found, and so on.
std::unexpected<Error> fail_errno(std::string_view what, int errno_value);

}  // namespace rdmc

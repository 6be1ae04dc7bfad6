#include "dataplane/base/error.hpp"

#include <cerrno>
#include <system_error>

namespace rdmc {

std::string_view name(Errc code) noexcept {
  switch (code) {
    case Errc::invalid_argument: return "invalid argument";
    case Errc::would_block: return "would block";
    case Errc::not_found: return "not found";
    case Errc::already_exists: return "already exists";
    case Errc::permission_denied: return "permission denied";
    case Errc::no_space: return "no space";
    case Errc::io_error: return "I/O error";
    case Errc::unsupported: return "unsupported";
    case Errc::authentication: return "authentication";
    case Errc::version_mismatch: return "version mismatch";
    case Errc::protocol_error: return "protocol error";
    case Errc::corrupt: return "corrupt";
    case Errc::timed_out: return "timed out";
    case Errc::peer_failed: return "peer failed";
    case Errc::cancelled: return "cancelled";
    case Errc::resource_limit: return "resource limit";
  }
  return "unknown";
}

namespace {
Errc code_of(int errno_value) {
  switch (errno_value) {
    case EINVAL: return Errc::invalid_argument;
    case EAGAIN: return Errc::would_block;
    case ENOENT:
    case ENOTDIR: return Errc::not_found;
    case EEXIST: return Errc::already_exists;
    case EACCES:
    case EPERM:
    case EROFS: return Errc::permission_denied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return Errc::no_space;
    case ENOSYS:
    case EOPNOTSUPP:
    case EAFNOSUPPORT: return Errc::unsupported;
    case ETIMEDOUT: return Errc::timed_out;
    case ECANCELED: return Errc::cancelled;
    case ENOMEM:
    case EMFILE:
    case ENFILE: return Errc::resource_limit;
    default: return Errc::io_error;
  }
}
}  // namespace

std::unexpected<Error> fail_errno(std::string_view what, int errno_value) {
  return fail(code_of(errno_value), std::string(what) + ": " + std::generic_category().message(errno_value));
}

}  // namespace rdmc

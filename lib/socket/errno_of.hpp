// Translates an error of a control connection into the errno that connect() or listen() gives to the
// application.
#pragma once

#include <cerrno>

#include "dataplane/base/error.hpp"

namespace rdmc::sockets {

inline int errno_of(const Error& error) {
  switch (error.code) {
    case Errc::peer_failed: return ECONNREFUSED;
    case Errc::authentication:
    case Errc::permission_denied: return EACCES;
    case Errc::timed_out: return ETIMEDOUT;
    case Errc::not_found: return EHOSTUNREACH;
    case Errc::resource_limit: return ENOBUFS;
    case Errc::unsupported:
    case Errc::invalid_argument: return EOPNOTSUPP;
    case Errc::already_exists: return EADDRINUSE;
    case Errc::version_mismatch:
    case Errc::protocol_error:
    case Errc::corrupt: return EPROTO;
    default: return ECONNABORTED;
  }
}

}  // namespace rdmc::sockets

// What a process proves itself with on control connections, and asks of whoever is at the other end, as
// command lines and applications name it. Plain values.
#pragma once

#include <string>

#include "controlplane/connect/channel_options.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::control {

/// One of the three.
struct Identity {
  std::string key_file;           ///< the cluster key
  CertificateFiles certificates;  ///< all of them
  bool insecure = false;          ///< anyone may be at the other end

  bool has_certificates() const {
    return !certificates.certificate.empty() || !certificates.private_key.empty() ||
           !certificates.authority.empty();
  }
  friend bool operator==(const Identity&, const Identity&) = default;
  bool is_empty() const { return key_file.empty() && !has_certificates() && !insecure; }
};

/// Whether it is one of the three, and that whole. Errors: invalid_argument.
Result<void> check(const Identity& identity);

/// Errors: those of check, and of TlsContext::follow, naming the file.
Result<Security> security_of(const Identity& identity);

}  // namespace rdmc::control

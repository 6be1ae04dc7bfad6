// The credentials of a process on control connections, in the form in which command lines and applications
// give them. The credentials also determine what a peer must prove. The types are plain values.
#pragma once

#include <string>

#include "controlplane/connect/channel_options.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::control {

/// The credentials. Exactly one of the three members must be set.
struct Identity {
  std::string key_file;           ///< The path of the cluster key's file.
  CertificateFiles certificates;  ///< All three paths must be set.
  bool insecure = false;          ///< If true, no peer has to prove anything.

  bool has_certificates() const {
    return !certificates.certificate.empty() || !certificates.private_key.empty() ||
           !certificates.authority.empty();
  }
  friend bool operator==(const Identity&, const Identity&) = default;
  bool is_empty() const { return key_file.empty() && !has_certificates() && !insecure; }
};

/// Checks that exactly one of the three members is set, and that it is complete. Errors: invalid_argument.
Result<void> check(const Identity& identity);

/// Reads the files of the credentials. Errors: those of check() and of TlsContext::follow. The text names the
/// file.
Result<Security> security_of(const Identity& identity);

}  // namespace rdmc::control

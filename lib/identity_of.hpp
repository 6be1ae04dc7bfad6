// Converts the credentials that the public options name (a key file, certificates, or neither) into the
// control plane's identity.
#pragma once

#include "controlplane/connect/identity.hpp"
#include "lib/include/rdmc/certificates.hpp"

namespace rdmc {

/// `Options` must have the members `key_file`, `certificates` and `insecure`.
template <typename Options>
control::Identity identity_of(const Options& options) {
  const Certificates& files = options.certificates;
  return {.key_file = options.key_file,
          .certificates = {.authority = files.authority,
                           .certificate = files.certificate,
                           .private_key = files.private_key},
          .insecure = options.insecure};
}

}  // namespace rdmc

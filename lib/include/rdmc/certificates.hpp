// The files by which a process proves itself where each has a certificate of its own instead of the cluster
// key.
#pragma once

#include <string>

namespace rdmc {

/// PEM files, in a cluster key's place: whoever the authority has signed takes part.
struct Certificates {
  std::string certificate;
  std::string private_key;  ///< of the certificate; mode 0600
  std::string authority;    ///< must sign for this cluster and nothing else
};

}  // namespace rdmc

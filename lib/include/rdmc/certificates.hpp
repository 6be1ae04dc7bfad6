// The files by which a process proves who it is, if each process has a certificate instead of the common
// cluster key.
#pragma once

#include <string>

namespace rdmc {

/// The paths of three PEM files, which replace the cluster key. Every process with a certificate of the
/// authority may take part.
struct Certificates {
  std::string certificate;
  std::string private_key;  ///< the key of the certificate; the file's mode must be 0600
  /// The authority's certificate. The authority must sign certificates only for this cluster.
  std::string authority;
};

}  // namespace rdmc

// The files by which a process proves who it is, if each process has a certificate instead of the common
// cluster key.
#pragma once

#include <string>

namespace rdmc {

/// The paths of three PEM files, which replace the cluster key. Every process with a certificate of the
/// authority may take part.
struct Certificates {
  std::string certificate;
  /// The key of the certificate. The file's mode must give no rights to its group and to others (0600 or
  /// 0400).
  std::string private_key;
  /// The authority's certificate. The authority must sign certificates only for this cluster.
  std::string authority;
};

}  // namespace rdmc

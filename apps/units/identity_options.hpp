// --key-file, --certificate, --private-key, --authority and --insecure, the same for every program that has
// control connections.
#pragma once

#include <CLI/CLI.hpp>

#include "controlplane/connect/identity.hpp"

namespace rdmc {

/// `insecure`: what goes without.
inline void declare_identity(CLI::App& app, control::Identity& identity, const char* insecure) {
  app.add_option("--key-file", identity.key_file, "the cluster key, as rdmc_bcast keygen made it")
      ->type_name("FILE");
  control::CertificateFiles& files = identity.certificates;
  app.add_option("--certificate", files.certificate, "ours (PEM), in the key file's place")
      ->type_name("FILE");
  app.add_option("--private-key", files.private_key, "of the certificate, mode 0600")->type_name("FILE");
  app.add_option("--authority", files.authority,
                 "who signs the certificates of all members, and of nobody else")
      ->type_name("FILE");
  app.add_flag("--insecure", identity.insecure, insecure);
}

/// Whether one was given, whole, and, for a data path that is encrypted, one that keeps its keys. Errors:
/// invalid_argument, naming the options.
inline Result<void> check_identity(const control::Identity& identity, bool encrypt) {
  if (auto valid = control::check(identity); !valid)
    return fail(valid.error().code, valid.error().what +
                                        ": --key-file FILE, or --certificate, --private-key and --authority "
                                        "(or --insecure)");
  if (identity.insecure && encrypt)
    return fail(Errc::invalid_argument,
                "--encrypt sends its keys over the control connection, which --insecure leaves open");
  return {};
}

}  // namespace rdmc

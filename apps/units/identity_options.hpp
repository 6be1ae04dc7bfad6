// The options --key-file, --certificate, --private-key, --authority and --insecure. They are the same for
// every program that has control connections.
#pragma once

#include <CLI/CLI.hpp>

#include "controlplane/connect/identity.hpp"

namespace rdmc {

/// Declares the options. `insecure` is the help text of --insecure.
inline void declare_identity(CLI::App& app, control::Identity& identity, const char* insecure) {
  app.add_option("--key-file", identity.key_file, "the cluster key, as rdmc_bcast keygen made it")
      ->type_name("FILE");
  control::CertificateFiles& files = identity.certificates;
  app.add_option("--certificate", files.certificate,
                 "this process's certificate (PEM), instead of a key file")
      ->type_name("FILE");
  app.add_option("--private-key", files.private_key,
                 "the private key of the certificate; its mode must be 0600")
      ->type_name("FILE");
  app.add_option("--authority", files.authority,
                 "the certificate authority that signs the certificates of all members and of nothing else")
      ->type_name("FILE");
  app.add_flag("--insecure", identity.insecure, insecure);
}

/// Checks that the credentials are given and complete. If `encrypt`, they must also protect the keys of the
/// data path, so --insecure is not allowed. Errors: invalid_argument, with the names of the options.
inline Result<void> check_identity(const control::Identity& identity, bool encrypt) {
  if (identity.is_empty())
    return fail(Errc::invalid_argument,
                "connections between hosts need a key: 'rdmc_bcast keygen FILE' makes a key file; copy it to "
                "all hosts, and give --key-file FILE there. Instead of it, --certificate, --private-key and "
                "--authority name certificates, and --insecure means that there is no key");
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

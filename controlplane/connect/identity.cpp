#include "controlplane/connect/identity.hpp"

namespace rdmc::control {

Result<void> check(const Identity& identity) {
  const CertificateFiles& files = identity.certificates;
  const bool certificates = identity.has_certificates();
  if (certificates && (files.certificate.empty() || files.private_key.empty() || files.authority.empty()))
    return fail(Errc::invalid_argument, "a certificate, its private key and the authority go together");
  const int proofs =
      (identity.key_file.empty() ? 0 : 1) + (certificates ? 1 : 0) + (identity.insecure ? 1 : 0);
  if (proofs == 0)
    return fail(Errc::invalid_argument, "a key is needed: a key file, or a certificate (or say insecure)");
  if (proofs > 1)
    return fail(Errc::invalid_argument, "a key file, certificates and insecure contradict each other");
  return {};
}

Result<Security> security_of(const Identity& identity) {
  if (auto valid = check(identity); !valid) return std::unexpected(valid.error());
  if (identity.insecure) return Security(Insecure{});
  auto context = identity.has_certificates() ? TlsContext::follow(identity.certificates)
                                             : TlsContext::follow(identity.key_file);
  if (!context) return std::unexpected(context.error());
  return Security(std::move(*context));
}

}  // namespace rdmc::control

// A certificate authority for tests. It signs valid and invalid certificates of members, and writes the files
// that a member's program reads.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>

#include "controlplane/auth/tls.hpp"

namespace rdmc::control::testing {

/// A temporary directory for the files of one member. The destructor removes it.
class CertificateFolder {
 public:
  CertificateFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "rdmc-certificates-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  ~CertificateFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  CertificateFolder(const CertificateFolder&) = delete;
  CertificateFolder& operator=(const CertificateFolder&) = delete;
  CertificateFiles files() const { return {path_ / "ca.pem", path_ / "member.pem", path_ / "member.key"}; }

 private:
  std::filesystem::path path_;
};

class Authority {
 public:
  explicit Authority(const std::string& name) : key_(make_key()) {
    certificate_ = sign(name, *key_, -1, 1, nullptr, key_.get(), true);
  }

  /// Writes three files: a new certificate and key of a member, and the certificate of this authority. The
  /// member's certificate is valid from `from_days` to `until_days`. Both numbers are days from now.
  void issue(const CertificateFiles& to, int from_days = -1, int until_days = 1) const {
    const auto key = make_key();
    const auto member = sign("member", *key, from_days, until_days, certificate_.get(), key_.get(), false);
    write(to.authority, text([&](BIO* out) { return PEM_write_bio_X509(out, certificate_.get()); }));
    write(to.certificate, text([&](BIO* out) { return PEM_write_bio_X509(out, member.get()); }));
    write(to.private_key, text([&](BIO* out) {
            return PEM_write_bio_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
          }));
    ::chmod(to.private_key.c_str(), 0600);
  }
  /// Adds this authority's certificate to the trusted authorities in `to`.
  void join(const CertificateFiles& to) const {
    std::ofstream(to.authority, std::ios::app)
        << text([&](BIO* out) { return PEM_write_bio_X509(out, certificate_.get()); });
  }

 private:
  struct Free {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(X509* certificate) const { X509_free(certificate); }
    void operator()(BIO* bio) const { BIO_free(bio); }
  };
  using Key = std::unique_ptr<EVP_PKEY, Free>;
  using Certificate = std::unique_ptr<X509, Free>;

  static Key make_key() { return Key(EVP_EC_gen("P-256")); }
  static Certificate sign(const std::string& name, EVP_PKEY& key, int from_days, int until_days,
                          const X509* issuer, EVP_PKEY* issuer_key, bool authority) {
    Certificate made(X509_new());
    X509_set_version(made.get(), 2);
    static long serial = 0;
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(made.get()), from_days * 86400L);
    X509_gmtime_adj(X509_getm_notAfter(made.get()), until_days * 86400L);
    X509_set_pubkey(made.get(), &key);
    X509_NAME* const subject = X509_get_subject_name(made.get());
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_issuer_name(made.get(), issuer == nullptr ? subject : X509_get_subject_name(issuer));
    X509_EXTENSION* const constraint = X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints,
                                                           authority ? "critical,CA:TRUE" : "CA:FALSE");
    X509_add_ext(made.get(), constraint, -1);
    X509_EXTENSION_free(constraint);
    if (X509_sign(made.get(), issuer_key, EVP_sha256()) == 0) throw std::runtime_error("X509_sign");
    return made;
  }
  template <typename Put>
  static std::string text(Put put) {
    const std::unique_ptr<BIO, Free> out(BIO_new(BIO_s_mem()));
    if (put(out.get()) != 1) throw std::runtime_error("PEM");
    char* data = nullptr;
    const long size = BIO_get_mem_data(out.get(), &data);
    return {data, static_cast<std::size_t>(size)};
  }
  static void write(const std::filesystem::path& to, const std::string& what) {
    // Writes the text to a new file and then renames the new file, as operators do when they rotate files. So
    // the inode changes.
    const auto beside = to.string() + ".new";
    std::ofstream(beside) << what;
    std::filesystem::rename(beside, to);
  }

  Key key_;
  Certificate certificate_;
};

}  // namespace rdmc::control::testing

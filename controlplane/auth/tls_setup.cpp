#include "controlplane/auth/tls_setup.hpp"

#include <openssl/ssl.h>

namespace rdmc::control {

void prepare_tls() {
  OPENSSL_init_ssl(0, nullptr);
}

}  // namespace rdmc::control

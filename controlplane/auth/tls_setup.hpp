// The initialization of the TLS library (OpenSSL).
#pragma once

namespace rdmc::control {

/// Initializes OpenSSL. OpenSSL cleans itself up in an exit handler. Code that uses TLS until the process
/// exits must therefore register its own exit handler (std::atexit) after this call. May be called from any
/// thread and any number of times.
void prepare_tls();

}  // namespace rdmc::control

// The requests of a process to the PMIx server that started it (PMIx standard 4.1). From the server, the
// process gets its rank and, after all processes have published their addresses, the addresses of the others.
// The client is in a module of its own, librdmc_pmix.so. So a program that is not started by a PMIx server
// does not need libpmix.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::control {

/// A client of the PMIx server. The destructor calls PMIx_Finalize. Only one thread at a time may use the
/// client. All calls block.
class PmixClient {
 public:
  virtual ~PmixClient() = default;

  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t size() const = 0;
  /// Returns the name that the server uses for the host of this process.
  virtual std::string host() const = 0;
  /// Returns the names of all hosts of the job.
  virtual std::vector<std::string> hosts() const = 0;

  /// Publishes `ours`, and returns the texts that all processes have published, ordered by rank. Every
  /// process of the job must call this function exactly once. Any process that can read the server's traffic
  /// can read the texts. Errors: timed_out if not all processes have called it in time, peer_failed if the
  /// server fails.
  virtual Result<std::vector<std::string>> exchange(const std::string& ours, Duration timeout) = 0;
};

/// Makes a client of the PMIx server of this process. Errors: peer_failed if no server answers.
using PmixOpener = Result<std::unique_ptr<PmixClient>> (*)();

/// Loads the module. Errors: unsupported and version_mismatch. The error text names the package that contains
/// libpmix.
Result<PmixOpener> load_pmix();

}  // namespace rdmc::control

// The requests of a process to the PMIx server that started it (PMIx standard 4.1): the rank of the process,
// and the addresses of the others after all have published theirs. The client is in a module of its own,
// librdmc_pmix.so, so that no other program needs libpmix.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::control {

/// The destructor calls PMIx_Finalize. Only one thread at a time may use the client. Its calls block.
class PmixClient {
 public:
  virtual ~PmixClient() = default;

  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t size() const = 0;
  /// The name that the server has for the host of this process.
  virtual std::string host() const = 0;
  /// All hosts of the job.
  virtual std::vector<std::string> hosts() const = 0;

  /// Publishes `ours`, and returns what each process has published, by rank. Every process of the job must
  /// call this exactly once. Any process that can read the server's traffic can read the texts. Errors:
  /// timed_out if not all processes have called it in time, peer_failed if the server fails.
  virtual Result<std::vector<std::string>> exchange(const std::string& ours, Duration timeout) = 0;
};

/// Makes a client of the PMIx server of this process. Errors: peer_failed if no server answers.
using PmixOpener = Result<std::unique_ptr<PmixClient>> (*)();

/// Loads the module. Errors: unsupported and version_mismatch. The text names the package that contains
/// libpmix.
Result<PmixOpener> load_pmix();

}  // namespace rdmc::control

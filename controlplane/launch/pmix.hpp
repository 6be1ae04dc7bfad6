// What a process asks the PMIx server that started it (PMIx standard 4.1): which rank it is, and where the
// others are, once all have told. The client lives in a module of its own, librdmc_pmix.so, so that nobody
// else needs libpmix.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::control {

/// Ends with PMIx_Finalize. One thread at a time; calls block.
class PmixClient {
 public:
  virtual ~PmixClient() = default;

  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t size() const = 0;
  /// The host of this process as the server calls it.
  virtual std::string host() const = 0;
  /// All hosts of the job.
  virtual std::vector<std::string> hosts() const = 0;

  /// Tells all others `ours`, and returns what each has told, by rank; once, called by all. Whoever can see
  /// the server's traffic sees it. Errors: timed_out (not all have called in time), peer_failed (the server).
  virtual Result<std::vector<std::string>> exchange(const std::string& ours, Duration timeout) = 0;
};

/// A client of this process's server. Errors: peer_failed (no server answers).
using PmixOpener = Result<std::unique_ptr<PmixClient>> (*)();

/// Loads the module. Errors: unsupported and version_mismatch, with the package that brings libpmix.
Result<PmixOpener> load_pmix();

}  // namespace rdmc::control

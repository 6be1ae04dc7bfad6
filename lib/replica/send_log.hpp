// The log of what a process sends, in a file, for rdmc_run --check-determinism. It is made of entries of
// kLoggedBytes bytes, big endian. The program's thread writes it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/base/descriptor.hpp"
#include "lib/replica/records.hpp"

namespace rdmc::replica {

/// One call that sends a message.
struct LoggedSend {
  ContextId context{};
  std::uint32_t to = 0;  ///< a rank of the communicator
  std::int32_t tag = 0;
  std::uint64_t bytes = 0, digest = 0;  ///< the length, and XXH3 of the content
  friend bool operator==(const LoggedSend&, const LoggedSend&) = default;
};

inline constexpr std::size_t kLoggedBytes = 28;

class SendLog {
 public:
  /// Later sends are not logged, so that the memory of a comparison is bounded.
  static constexpr std::uint64_t kMostSends = 1 << 20;

  /// Creates the file `folder`/`rank`. Errors: those of open().
  static Result<SendLog> create(const std::string& folder, Rank rank);
  void add(ContextId context, std::uint32_t to, std::int32_t tag, std::span<const std::byte> bytes);
  /// Writes what is buffered. Errors: those of write(), also of earlier calls.
  Result<void> flush();

  /// Reads the file. Errors: those of open() and read(); protocol_error if it is not a log.
  static Result<std::vector<LoggedSend>> read(const std::string& folder, Rank rank);

 private:
  explicit SendLog(Descriptor file) : file_(std::move(file)) {}
  void write_buffered();

  Descriptor file_;
  /// A process that the program forks must not write what its parent has buffered, so stdio is not used.
  std::vector<std::byte> buffered_;
  std::optional<Error> error_{};
  std::uint64_t sends_ = 0;
};

}  // namespace rdmc::replica

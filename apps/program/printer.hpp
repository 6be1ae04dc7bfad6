// Writes text to stdout and stderr without waiting for their readers. A worker does the writing, because a
// reader that stalls must not stop the heartbeats. The text that waits for such a reader is limited. Beyond
// this limit, whole texts are dropped, and their number is reported on stderr. Any thread may call the
// functions. The texts appear in the order of the calls. The destructor waits until everything is written.
// StopSignals::end_within() limits this wait.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "apps/program/worker.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc {

class Printer {
 public:
  /// The number of bytes that may wait for the reader. The results for the longest hostlist need less.
  static constexpr std::size_t kMostBytes = 8 << 20;

  /// Starts the worker. Errors: resource_limit if no thread can be started.
  static Result<std::unique_ptr<Printer>> start();

  /// Writes `text` to `fd`, which must stay open.
  void print(int fd, std::string text);
  /// Runs `write` on the worker. `write` must write about `bytes` bytes with write_text(). If `bytes` is 0,
  /// `write` is never dropped.
  void post(std::size_t bytes, Worker::Task write);
  /// Returns the number of texts that were dropped so far.
  std::uint64_t dropped() const { return dropped_; }

 private:
  Printer() = default;

  std::atomic<std::size_t> waiting_ = 0;  // the number of bytes that are posted and not written yet
  std::atomic<std::uint64_t> dropped_ = 0;
  std::uint64_t reported_ = 0;      // the number of dropped texts that are reported; used by the worker
  std::unique_ptr<Worker> worker_;  // the last member, because it uses the others
};

/// Writes `text`, and waits for the reader. Errors are ignored, because they mean that the text has no
/// reader. The program's exit code also shows its result.
void write_text(int fd, std::string_view text);

}  // namespace rdmc

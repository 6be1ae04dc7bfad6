// Puts a transfer's events out: JSON lines on stdout if asked for, text and the progress line on stderr.
// Writing is a worker's: a reader of our output that stalls must not stop our heartbeats. What waits for such
// a reader is bounded. Any thread; lines come out in the order of the calls. Destroying waits until all is
// written: StopSignals::end_within() bounds that.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "apps/bcast-cli/events.hpp"
#include "apps/bcast-cli/progress.hpp"
#include "apps/bcast-cli/worker.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::bcast {

/// Text that waits for its reader; more is dropped, and said to be. The results of the longest hostlist take
/// less.
constexpr std::size_t kMaxUnread = 8 << 20;

class Reporter {
 public:
  /// Errors: resource_limit (no thread).
  static Result<std::unique_ptr<Reporter>> start(bool json);

  /// Left out while an earlier one has not been written yet.
  void progress(const ProgressEvent& event);
  void fabric(const FabricEvent& event);
  void plan(const PlanEvent& event);
  void straggler(const StragglerEvent& event);
  void receiver(const ReceiverEvent& event);
  void summary(const SummaryEvent& event);
  /// One line for people; `text` without a newline.
  void say(std::string text);
  /// "rdmc_bcast: TEXT", likewise.
  void complain(const Error& error);
  /// One line for programs, with its newline, if they asked for any.
  void tell(std::string line);

 private:
  explicit Reporter(bool json);
  void put(std::string json, std::string text);

  bool json_;
  bool json_on_terminal_;  // it would be glued to the progress line, and says the same
  std::atomic<bool> progress_waits_ = false;
  std::atomic<std::size_t> unread_ = 0;     // bytes posted and not yet written
  std::atomic<std::uint64_t> dropped_ = 0;  // lines, since the last time it was said
  ProgressLine line_;                       // the worker's
  std::unique_ptr<Worker> worker_;          // last: it uses the line
};

}  // namespace rdmc::bcast

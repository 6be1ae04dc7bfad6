// Writes a transfer's events: JSON lines to stdout, if the user wants them, and text and the progress line to
// stderr. A worker does the writing, because a reader that stalls must not stop the heartbeats. The text that
// waits for such a reader is limited. Any thread may call the functions. The lines appear in the order of the
// calls. The destructor waits until everything is written. StopSignals::end_within() limits this wait.
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

/// The number of bytes that may wait for the reader. Further lines are dropped, and their number is reported.
/// The results for the longest hostlist need less than this.
constexpr std::size_t kMaxUnread = 8 << 20;

class Reporter {
 public:
  /// Starts the worker. Errors: resource_limit if no thread can be started.
  static Result<std::unique_ptr<Reporter>> start(bool json);

  /// Does nothing while an earlier progress event is not written yet.
  void progress(const ProgressEvent& event);
  void fabric(const FabricEvent& event);
  void plan(const PlanEvent& event);
  void straggler(const StragglerEvent& event);
  void receiver(const ReceiverEvent& event);
  void summary(const SummaryEvent& event);
  /// Writes one line for people. `text` must not end with a newline.
  void say(std::string text);
  /// Writes "rdmc_bcast: TEXT" as one line for people.
  void complain(const Error& error);
  /// Writes one line for programs, if JSON is wanted. `line` must end with a newline.
  void tell(std::string line);

 private:
  explicit Reporter(bool json);
  void put(std::string json, std::string text);

  bool json_;
  // True if the JSON goes to a terminal. Then no progress line is shown. It would be mixed with the JSON, and
  // the JSON has the same content.
  bool json_on_terminal_;
  std::atomic<bool> progress_waits_ = false;
  std::atomic<std::size_t> unread_ = 0;     // the number of bytes that are posted and not written yet
  std::atomic<std::uint64_t> dropped_ = 0;  // the number of lines that were dropped since the last report
  ProgressLine line_;                       // used by the worker
  std::unique_ptr<Worker> worker_;          // the last member, because it uses line_
};

}  // namespace rdmc::bcast

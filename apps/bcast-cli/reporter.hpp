// Puts a transfer's events out: JSON lines on stdout if asked for, text and the progress line on stderr.
// Writing is a worker's: a reader of our output that stalls must not stop our heartbeats. Any thread; lines
// come out in the order of the calls.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "apps/bcast-cli/events.hpp"
#include "apps/bcast-cli/progress.hpp"
#include "apps/bcast-cli/worker.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::bcast {

class Reporter {
 public:
  /// Errors: resource_limit (no thread).
  static Result<std::unique_ptr<Reporter>> start(bool json);

  void progress(const ProgressEvent& event);
  void fabric(const FabricEvent& event);
  void receiver(const ReceiverEvent& event);
  void summary(const SummaryEvent& event);
  /// One line for people; `text` without a newline.
  void say(std::string text);
  /// One line for programs, with its newline, if they asked for any.
  void tell(std::string line);

 private:
  explicit Reporter(bool json);
  void put(std::string json, std::string text);

  bool json_;
  ProgressLine line_;               // the worker's
  std::unique_ptr<Worker> worker_;  // last: it uses the line
};

}  // namespace rdmc::bcast

// Writes a transfer's events: JSON lines to stdout, if the user wants them, and text and the progress line to
// stderr. Like its Printer, it waits for no reader. Any thread may call the functions.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "apps/bcast-cli/events.hpp"
#include "apps/bcast-cli/progress.hpp"
#include "apps/program/printer.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::bcast {

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
  /// Writes the complaint() as one line for people.
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
  ProgressLine line_;                 // used by the printer's worker
  std::unique_ptr<Printer> printer_;  // the last member, because it uses line_
};

}  // namespace rdmc::bcast

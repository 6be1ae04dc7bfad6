// Prints what happens in a run: the merged output of the ranks, their standard errors, and the events. With
// --json, stdout has one JSON object on each line. Otherwise stdout has the output of the ranks only, and the
// events that are failures are texts on stderr. It belongs to one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apps/run/output_merger.hpp"
#include "apps/run/run_state.hpp"
#include "apps/run/writer.hpp"
#include "lib/replica/layout.hpp"

namespace rdmc::run {

class Reporter {
 public:
  struct Options {
    bool json = false;
    bool label = false;
  };

  /// `changed` is called on another thread when one of the is_...() functions may have changed its value.
  /// Errors: resource_limit.
  static Result<Reporter> start(const Options& options, const std::function<void()>& changed);

  /// `respawned_after` is the time since the death of the process in whose place the new one is, in
  /// milliseconds. It is absent for the processes with which the run begins.
  void started(const replica::ReplicaId& id, pid_t pid, std::optional<double> respawned_after = {});
  void died(const replica::ReplicaId& id, pid_t pid, const std::string& cause);
  void output(Rank rank, const OutputPart& part);
  void error_line(const replica::ReplicaId& id, std::string_view line);
  void differs(Rank rank, const Difference& difference);
  void differs(const replica::SendDifference& difference);
  /// Prints a text for people.
  void report(std::string_view text);
  void summary(int code, const RunState& state, std::uint64_t differing, double seconds);
  /// Passes the text on to the threads that write it.
  void flush();

  /// True if no more standard output, or standard error, of the processes must be read now.
  bool is_output_full() const { return output_->is_full(); }
  bool is_errors_full() const { return errors_->is_full(); }
  /// True if the standard output has no reader any more.
  bool is_output_broken() const { return output_->is_broken(); }

 private:
  explicit Reporter(const Options& options) : options_(options) {}

  Options options_;
  std::string output_text_, errors_text_;
  std::optional<Rank> unfinished_;  ///< the rank whose line at the end of the output has no newline
  std::unique_ptr<Writer> output_, errors_;
};

}  // namespace rdmc::run

// The progress of a transfer, computed from the reports of its receivers: the slowest receiver, the rate of
// the whole transfer, and a line for a terminal. Time is passed in. All of this is used on the control loop's
// thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "apps/bcast-cli/events.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::bcast {

/// Progress is reported at most once in this interval.
constexpr Duration kProgressInterval = milliseconds(250);
/// Progress is reported after this time even if nothing has changed.
constexpr Duration kLongestSilence = seconds(1);
/// The rate is an average over this time.
constexpr Duration kRateWindow = seconds(2);

class Progress {
 public:
  Progress(std::vector<std::string> hosts, std::uint64_t total_bytes, Time start);

  /// Sets the number of bytes that a receiver has reported. `receiver` is the receiver's index in `hosts`.
  /// The value never becomes smaller, and is at most the size of the file.
  void has(std::size_t receiver, std::uint64_t bytes);
  void done(std::size_t receiver);
  /// Must be called when the receiver has left the transfer. The progress then no longer includes the
  /// receiver.
  void failed(std::size_t receiver);

  /// Returns the progress if it must be reported now. The first call returns it. Later calls return it if it
  /// has changed, at most once in kProgressInterval, and after kLongestSilence in any case.
  std::optional<ProgressEvent> due(Time now);

 private:
  struct Receiver {
    std::string host;
    std::uint64_t bytes = 0;
    bool done = false;
    bool failed = false;
  };
  struct Sample {
    Time at;
    std::uint64_t bytes;
  };

  std::vector<Receiver> receivers_;
  std::uint64_t total_bytes_;
  Time start_;
  std::optional<Time> last_told_;
  bool news_ = true;
  std::deque<Sample> samples_;
};

/// Returns the line for a terminal of `columns` columns, without a newline and without colours.
std::string progress_text(const ProgressEvent& event, std::size_t columns);

/// Shows the line on a terminal and overwrites it each time. Does nothing if the descriptor is not a
/// terminal. Uses colour unless NO_COLOR is set (no-color.org).
class ProgressLine {
 public:
  explicit ProgressLine(int fd);
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const ProgressEvent& event);
  /// Removes the line, so that other text can be written.
  void clear();

 private:
  int fd_;
  bool terminal_;
  bool colour_;
  bool shown_ = false;
};

}  // namespace rdmc::bcast

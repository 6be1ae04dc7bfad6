// The progress of a transfer, from what single receivers say they have: who is slowest, how fast the whole
// is, and one line of it on a terminal. Time is passed in. The control thread owns all of this.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "apps/bcast-cli/events.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::bcast {

/// Programs and people are told at most this often.
constexpr Duration kProgressInterval = milliseconds(250);
/// Nothing new is news, too.
constexpr Duration kLongestSilence = seconds(1);
/// The rate shown is that of the last while.
constexpr Duration kRateWindow = seconds(2);

class Progress {
 public:
  Progress(std::vector<std::string> hosts, std::uint64_t total_bytes, Time start);

  /// `receiver`: its index in `hosts`. What a receiver says it has never shrinks and is at most the file.
  void has(std::size_t receiver, std::uint64_t bytes);
  void done(std::size_t receiver);
  /// Out of the transfer: counts no longer.
  void failed(std::size_t receiver);

  /// The state to tell, if it is time to tell again: at once, then when there is news, at most once an
  /// interval, and after kLongestSilence even without.
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

/// The line for a terminal of `columns` columns, without a newline; colours are its caller's.
std::string progress_text(const ProgressEvent& event, std::size_t columns);

/// The line on a terminal, rewritten in place; silent when the descriptor is no terminal. Colour is used
/// unless NO_COLOR is set (no-color.org).
class ProgressLine {
 public:
  explicit ProgressLine(int fd);
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const ProgressEvent& event);
  /// Takes the line away, so that other text can be written.
  void clear();

 private:
  int fd_;
  bool terminal_;
  bool colour_;
  bool shown_ = false;
};

}  // namespace rdmc::bcast

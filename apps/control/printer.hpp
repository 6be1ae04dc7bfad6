// Lines for a descriptor whose reader may be slow, busy or gone: whoever prints never waits for it. A thread
// of its own writes what waits, up to a bound; lines beyond it are dropped, whole, and counted. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "dataplane/base/descriptor.hpp"

namespace rdmc::control_app {

class Printer {
 public:
  static constexpr std::size_t kMostBytes = 1 << 20;
  /// What still waits at the end is written so long, if it is read.
  static constexpr int kLastWordsMs = 500;

  /// `fd` outlives it and is left as it is: others may have it, too.
  explicit Printer(int fd);
  ~Printer();

  /// A newline is added.
  void print(std::string line);
  /// Lines, so far.
  std::uint64_t dropped() const { return dropped_; }

 private:
  void run();
  /// How much of at most PIPE_BUF bytes: a pipe that has room takes as much without blocking, even where it
  /// is not ours alone.
  std::size_t write_some(std::string_view bytes) const;
  int fd() const { return own_ ? own_.get() : fd_; }

  const int fd_;
  const Descriptor own_;  ///< the same pipe or terminal, for us alone: it need not block
  const Descriptor wake_;
  std::mutex mutex_;
  std::string waiting_;
  bool ending_ = false;
  std::atomic<std::uint64_t> dropped_ = 0;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace rdmc::control_app

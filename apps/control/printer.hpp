// Prints lines to a descriptor whose reader may be slow, busy or gone. print() never waits for the reader. A
// separate thread writes the lines, and lines are queued up to a limit. When this limit is reached, whole
// lines are dropped and counted. Any thread may call the functions.
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
  /// The destructor writes the remaining lines for at most this time.
  static constexpr int kLastWordsMs = 500;

  /// `fd` must outlive this object. Its flags are not changed, because other processes may share it.
  explicit Printer(int fd);
  ~Printer();

  /// Prints `line` and a newline.
  void print(std::string line);
  /// Returns the number of lines that were dropped so far.
  std::uint64_t dropped() const { return dropped_; }

 private:
  void run();
  /// Writes at most PIPE_BUF bytes, and returns the number of bytes that were written. A pipe with free space
  /// takes PIPE_BUF bytes without blocking, even if other processes share it.
  std::size_t write_some(std::string_view bytes) const;
  int fd() const { return own_ ? own_.get() : fd_; }

  const int fd_;
  /// The same pipe or terminal, opened for this object alone, so that it need not block.
  const Descriptor own_;
  const Descriptor wake_;
  std::mutex mutex_;
  std::string waiting_;
  bool ending_ = false;
  std::atomic<std::uint64_t> dropped_ = 0;
  std::thread thread_;  // Must be the last member, because the thread uses all the others.
};

}  // namespace rdmc::control_app

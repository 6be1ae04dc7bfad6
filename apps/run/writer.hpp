// Writes text to stdout or stderr on a thread of its own, because the reader of the text may be slow, and the
// run must be watched meanwhile. Nothing is dropped. Instead, is_full() shows that the caller must not read
// more text from the processes of the run.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "apps/program/worker.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::run {

class Writer {
 public:
  /// The number of bytes that may wait for the reader before is_full() returns true.
  static constexpr std::size_t kMostBytes = 1 << 20;

  /// Starts the thread. `changed` is called on this thread when the waiting text becomes less than half of
  /// kMostBytes, and when a write has failed. Errors: resource_limit.
  static Result<std::unique_ptr<Writer>> start(int fd, std::function<void()> changed);

  void print(std::string text);
  bool is_full() const { return waiting_ > kMostBytes; }
  /// True if a write has failed, so the text has no reader. Later text is dropped.
  bool is_broken() const { return is_broken_; }

 private:
  Writer(int fd, std::function<void()> changed) : fd_(fd), changed_(std::move(changed)) {}
  void write(const std::string& text);

  const int fd_;
  const std::function<void()> changed_;
  std::atomic<std::size_t> waiting_ = 0;
  std::atomic<bool> is_broken_ = false;
  std::unique_ptr<Worker> worker_;  // The last member, because it uses the others.
};

}  // namespace rdmc::run

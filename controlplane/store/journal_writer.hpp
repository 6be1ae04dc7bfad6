// Writes a journal on a thread of its own. A disk may take seconds for one write, and the control loop, on
// which a member's heartbeats may run as well, must not wait for it. One write is under way at a time.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "controlplane/store/journal_file.hpp"

namespace rdmc::store {

class JournalWriter {
 public:
  using Done = std::move_only_function<void(Result<void>)>;

  /// Errors: resource_limit.
  static Result<std::unique_ptr<JournalWriter>> start(JournalFile file);
  /// Waits for the write that is under way. Not on the writer's thread.
  ~JournalWriter();
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;

  /// `done` is called on the writer's thread. The write before must be done.
  void write(Acceptor::Write write, Done done);

 private:
  explicit JournalWriter(JournalFile file) : file_(std::move(file)) {}
  void run();

  struct Job {
    Acceptor::Write write;
    Done done;
  };
  JournalFile file_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Job> job_;  // guarded by mutex_
  bool ends_ = false;       // guarded by mutex_
  std::thread thread_;
};

}  // namespace rdmc::store

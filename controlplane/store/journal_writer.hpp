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
  using Done = std::move_only_function<void(const Result<void>&)>;

  /// Errors: resource_limit.
  static Result<std::unique_ptr<JournalWriter>> start(JournalFile file);
  /// Waits for the write that is under way. Not on the writer's thread.
  ~JournalWriter();
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;

  /// `done` is called on the writer's thread, and once more after a while if it throws std::bad_alloc. The
  /// write before must be done. Errors for `done`: those of JournalFile::write, resource_limit (no memory:
  /// what the file holds is not known).
  void write(Acceptor::Write write, Done done);

 private:
  explicit JournalWriter(JournalFile file) : file_(std::move(file)) {}
  struct Job {
    Acceptor::Write write;
    Done done;
  };
  void run();
  Result<void> do_write(const Acceptor::Write& write);
  void tell(Job& job, const Result<void>& written);

  JournalFile file_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Job> job_;  // guarded by mutex_
  bool ends_ = false;       // guarded by mutex_
  std::thread thread_;
};

}  // namespace rdmc::store

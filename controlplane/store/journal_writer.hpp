// Writes a journal on a thread of its own. A disk may need seconds for one write. The control loop must not
// wait for the disk, because a member's heartbeats may run on this loop too. Only one write is in progress at
// a time.
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

  /// Starts the thread. Errors: resource_limit if the thread cannot be started.
  static Result<std::unique_ptr<JournalWriter>> start(JournalFile file);
  /// Waits for the end of the current write. Must not be called on the writer's thread.
  ~JournalWriter();
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;

  /// Begins a write. The preceding write must have ended. `done` is called on the writer's thread. If `done`
  /// throws std::bad_alloc, it is called again after a pause. Errors for `done`: those of JournalFile::write,
  /// and resource_limit if there was no memory. After resource_limit, the content of the file is unknown.
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
  std::optional<Job> job_;  // Guarded by mutex_.
  bool ends_ = false;       // Guarded by mutex_.
  std::thread thread_;
};

}  // namespace rdmc::store

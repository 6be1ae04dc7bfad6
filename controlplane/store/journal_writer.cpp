#include "controlplane/store/journal_writer.hpp"

#include <pthread.h>

#include <chrono>
#include <new>
#include <utility>

#include "dataplane/base/signal_masked_thread.hpp"

namespace rdmc::store {
namespace {

/// If there is no memory to report the end of a write, the report is repeated after this pause.
constexpr std::chrono::milliseconds kTellAgain{10};

}  // namespace

Result<std::unique_ptr<JournalWriter>> JournalWriter::start(JournalFile file) {
  auto writer = std::unique_ptr<JournalWriter>(new JournalWriter(std::move(file)));
  auto thread = start_signal_masked_thread("for the journal", [raw = writer.get()] { raw->run(); });
  if (!thread) return std::unexpected(thread.error());
  writer->thread_ = std::move(*thread);
  return writer;
}

JournalWriter::~JournalWriter() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void JournalWriter::write(Acceptor::Write write, Done done) {
  {
    const std::scoped_lock lock(mutex_);
    job_.emplace(std::move(write), std::move(done));
  }
  changed_.notify_one();
}

void JournalWriter::run() {
  ::pthread_setname_np(::pthread_self(), "rdmc-journal");
  for (;;) {
    std::optional<Job> job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ends_ || job_; });
      if (ends_) return;
      job = std::exchange(job_, std::nullopt);
    }
    tell(*job, do_write(job->write));
  }
}

Result<void> JournalWriter::do_write(const Acceptor::Write& write) {
  try {
    return file_.write(write);
  } catch (const std::bad_alloc&) {
    return fail(Errc::resource_limit, "no memory");
  }
}

/// Reports the end of a write. The caller waits for this report. So if the report fails, it is repeated until
/// it succeeds or the writer is destroyed.
void JournalWriter::tell(Job& job, const Result<void>& written) {
  for (;;) {
    try {
      return job.done(written);
    } catch (const std::bad_alloc&) {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, kTellAgain, [this] { return ends_; })) return;
    }
  }
}

}  // namespace rdmc::store

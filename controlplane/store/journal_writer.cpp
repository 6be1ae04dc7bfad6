#include "controlplane/store/journal_writer.hpp"

#include <pthread.h>

#include <utility>

#include "dataplane/base/quiet_thread.hpp"

namespace rdmc::store {

Result<std::unique_ptr<JournalWriter>> JournalWriter::start(JournalFile file) {
  auto writer = std::unique_ptr<JournalWriter>(new JournalWriter(std::move(file)));
  auto thread = start_quiet_thread("for the journal", [raw = writer.get()] { raw->run(); });
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
    job->done(file_.write(job->write));
  }
}

}  // namespace rdmc::store

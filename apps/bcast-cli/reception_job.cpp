// The job of a reception: the check whether the file can be received, and later the commit or the removal of
// the file.
#include <utility>

#include "apps/bcast-cli/file_source.hpp"
#include "apps/bcast-cli/reception.hpp"
#include "dataplane/base/clock.hpp"

namespace rdmc::bcast {
namespace {

DestinationRequest request_of(const JobDescription& job) {
  return {.destination = job.destination, .source_name = job.source_name, .overwrite = job.overwrite};
}

Result<std::unique_ptr<ReceivedFile>> make_file(const ReceiveDirectory& receive_directory,
                                                const JobDescription& job) {
  auto placement = resolve_destination(receive_directory, request_of(job));
  if (!placement) return std::unexpected(placement.error());
  auto partial = PartialFile::claim(std::move(*placement), job.overwrite, job.mode);
  if (!partial) return std::unexpected(partial.error());
  auto file = ReceivedFile::create(std::move(*partial), job.shape, job.allocated_bytes);
  if (!file) return std::unexpected(file.error());
  return std::make_unique<ReceivedFile>(std::move(*file));
}

}  // namespace

void Reception::handle(session::JobOffered& offered) {
  job_offered_ = true;
  auto job = decode_job(offered.description);
  if (!job) return give_up(std::move(job.error()));
  job_ = std::move(*job);
  if (services_.fabric.encrypt && !job_.encrypt)
    return give_up(
        {Errc::authentication, "this agent takes part in encrypted transfers only; see --encrypt"});
  outcome_.path = job_.destination;
  outcome_.dry_run = job_.dry_run;
  if (!job_.dry_run) return claim_file();
  in_background([&directory = services_.directory,
                 job = job_] { return foresee(directory, request_of(job), job.allocated_bytes); },
                [](Reception& self, Result<std::string> path) {
                  if (!path) return self.give_up(std::move(path.error()));
                  self.outcome_.path = std::move(*path);
                  self.participant_.accept({}, monotonic_now());
                });
}

/// Makes the partial file. Opens the data plane before the job is accepted, because opening a port and
/// touching the ring buffer's memory take a moment. Other receivers can join in this time.
void Reception::claim_file() {
  in_background(
      [&directory = services_.directory, fabric = services_.fabric, &loop = loop_, job = job_,
       local = channel_->local(), events = data_plane_events()]() mutable -> Result<Prepared> {
        fabric.encrypt = job.encrypt;
        auto file = make_file(directory, job);
        if (!file) return std::unexpected(file.error());
        auto data_plane =
            DataPlaneProxy::open(loop, fabric, local, ring_bytes(job.shape, local), std::move(events));
        if (!data_plane) return std::unexpected(data_plane.error());
        return Prepared{std::move(*file), std::move(*data_plane)};
      },
      [](Reception& self, Result<Prepared> prepared) {
        if (!prepared) return self.give_up(std::move(prepared.error()));
        self.file_ = std::move(prepared->file);
        self.data_plane_ = std::move(prepared->data_plane);
        self.outcome_.path = self.file_->path();
        self.participant_.accept(encode_held(self.file_->held()), monotonic_now());
      });
}

void Reception::handle(const session::CommitRequested&) {
  auto committer = Worker::start();
  if (!committer) return give_up(std::move(committer.error()));
  committer_ = std::move(*committer);
  run_for(
      weak_from_this(), *committer_, loop_, [file = file_.get()] { return file->commit(); },
      [](Reception& self, Result<void> committed) {
        if (committed) {
          self.outcome_.event.bytes = self.job_.shape.size;
          self.outcome_.event.seconds = (monotonic_now() - self.start_).seconds();
          self.participant_.committed({}, monotonic_now());
        } else {
          self.give_up(std::move(committed.error()));
        }
        self.pump();
      });
}

void Reception::handle(const session::AbortRequested&) {
  unwanted_.request_stop();
  tear_down([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->drop_file([weak] {
      if (const auto clean = weak.lock()) clean->participant_.abort_done(monotonic_now());
    });
  });
}

/// Ends the data plane and closes its store. A sink first writes the blocks that have arrived. `then` runs on
/// the loop, after all earlier tasks of the worker.
void Reception::tear_down(std::move_only_function<void()> then) {
  watch_.reset();
  auto close_sink = [weak = weak_from_this(), then = std::move(then)]() mutable {
    const auto self = weak.lock();
    if (!self) return;
    self->in_background(
        [sink = std::move(self->sink_), source = std::move(self->source_)]() mutable {
          sink.reset();
          source.reset();
          return Result<void>{};
        },
        [then = std::move(then)](Reception&, const Result<void>&) mutable { then(); });
  };
  if (data_plane_)
    data_plane_->end(std::move(close_sink));
  else
    close_sink();
}

/// Closes the file. A file that is not committed is removed.
void Reception::drop_file(std::move_only_function<void()> then) {
  in_background(
      [file = std::move(file_), committer = std::move(committer_)]() mutable {
        committer.reset();  // This waits for a commit that is running.
        file.reset();
        return Result<void>{};
      },
      [then = std::move(then)](Reception&, const Result<void>&) mutable { then(); });
}

}  // namespace rdmc::bcast

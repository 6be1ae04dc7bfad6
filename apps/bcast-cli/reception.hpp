// One file being received: the session's Participant on a channel, the data plane, the partial file, and the
// worker that does what blocks. Lives on the control loop's thread, held by its owner until the finished
// handler is called; answers that come from other threads find it by a weak pointer.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "apps/bcast-cli/data_plane_thread.hpp"
#include "apps/bcast-cli/events.hpp"
#include "apps/bcast-cli/file_sink.hpp"
#include "apps/bcast-cli/received_file.hpp"
#include "apps/bcast-cli/root.hpp"
#include "apps/bcast-cli/transfer_messages.hpp"
#include "apps/bcast-cli/worker.hpp"
#include "controlplane/connect/channel.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "controlplane/session/participant.hpp"

namespace rdmc::bcast {

class Reception : public std::enable_shared_from_this<Reception> {
 public:
  /// How it ended. `path` is empty when no job was offered.
  struct Outcome {
    std::string peer;
    std::string path;
    ReceiverEvent event;
    bool dry_run = false;
  };
  using FinishedHandler = std::move_only_function<void(const Outcome&)>;

  /// `root` outlives the reception. `finished` is called once, on the loop's thread, when nothing of it is
  /// left but the object. Errors: resource_limit (no thread); `channel` is then still the caller's.
  static Result<std::shared_ptr<Reception>> begin(control::ControlLoop& loop, const Root& root,
                                                  control::Channel&& channel, FinishedHandler finished);
  ~Reception();

  /// Gives up and tells the sender why; `finished` follows.
  void stop(Error cause);

 private:
  /// What a receiver needs before it accepts a job.
  struct Prepared {
    std::unique_ptr<ReceivedFile> file;
    std::unique_ptr<DataPlaneThread> data_plane;
  };

  Reception(control::ControlLoop& loop, const Root& root, control::Channel channel, FinishedHandler finished);

  // reception.cpp: the channel, the clock, and the end
  void pump();
  void arm_timer();
  void on_timer();
  void on_channel_closed(const Error& cause);
  void handle(session::Send& send);
  void handle(const session::CloseChannel&);
  void handle(const session::AlsoFailed&) {}
  void handle(session::Finished& finished);
  void give_up(Error cause);
  void finish_if_done();
  /// run_for() with our worker, and a pump() after `then`.
  template <typename Work, typename Then>
  void in_background(Work work, Then then);

  // reception_job.cpp: the job and the file
  void handle(session::JobOffered& offered);
  void handle(const session::CommitRequested&);
  void handle(const session::AbortRequested&);
  void claim_file();
  void tear_down(std::move_only_function<void()> then);
  void drop_file(std::move_only_function<void()> then);

  // reception_epoch.cpp: the data plane
  void handle(session::FormRequested& request);
  void handle(session::PeersReady& peers);
  void handle(const session::StartData& start);
  void handle(const session::EndData& end);
  DataPlane::Events data_plane_events();
  void on_delivered(Epoch epoch);
  void on_data_failed(Epoch epoch, std::optional<Rank> peer, const Error& error);

  control::ControlLoop& loop_;
  const Root& root_;
  std::optional<control::Channel> channel_;
  FinishedHandler finished_;
  session::Participant participant_;
  control::Timer timer_;
  Time start_;
  JobDescription job_;
  Outcome outcome_;
  bool pumping_ = false;
  bool channel_closed_ = false;
  bool cleaned_up_ = false;
  BlockMap epoch_blocks_;               // of the epoch being formed
  std::unique_ptr<ReceivedFile> file_;  // the worker's, while a task of it runs
  std::unique_ptr<DataPlaneThread> data_plane_;
  std::unique_ptr<FileSink> sink_;
  std::unique_ptr<Worker> worker_;
};

template <typename Work, typename Then>
void Reception::in_background(Work work, Then then) {
  run_for(weak_from_this(), *worker_, loop_, std::move(work),
          [then = std::move(then)](Reception& self, auto result) mutable {
            then(self, std::move(result));
            self.pump();
          });
}

}  // namespace rdmc::bcast

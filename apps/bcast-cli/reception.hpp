// One file being received: the session's Participant on a channel, the data plane, the partial file, and the
// workers that do what blocks; after the sender's death perhaps the NewCoordinator that leads on. Lives on
// the control loop's thread, held by its owner until the finished handler is called; answers that come from
// other threads find it by a weak pointer.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "apps/bcast-cli/data_plane_proxy.hpp"
#include "apps/bcast-cli/data_watch.hpp"
#include "apps/bcast-cli/events.hpp"
#include "apps/bcast-cli/file_sink.hpp"
#include "apps/bcast-cli/file_source.hpp"
#include "apps/bcast-cli/new_coordinator.hpp"
#include "apps/bcast-cli/plane_answers.hpp"
#include "apps/bcast-cli/receive_directory.hpp"
#include "apps/bcast-cli/received_file.hpp"
#include "apps/bcast-cli/transfer_messages.hpp"
#include "apps/bcast-cli/worker.hpp"
#include "controlplane/connect/channel.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "controlplane/session/participant.hpp"
#include "controlplane/session/takeover.hpp"

namespace rdmc::bcast {

class Reception : public std::enable_shared_from_this<Reception> {
 public:
  /// How it ended. `path` is empty when no job was offered.
  struct Outcome {
    std::string peer;
    std::string path;
    ReceiverEvent event;
    bool dry_run = false;
    std::optional<Error> strange;  ///< why its peer came to offer nothing, unless that was our own wish
  };
  using FinishedHandler = std::move_only_function<void(const Outcome&)>;
  /// What it shares with the others of its agent; it outlives them.
  struct Services {
    control::ControlLoop& loop;
    ReceiveDirectory directory;
    std::shared_ptr<peer::Peers> peers;  ///< whom it serves, and among them the other survivors
    FabricChoice fabric;
    /// The reception of that session, if there is one.
    std::function<std::shared_ptr<Reception>(const session::SessionId&)> find;
    /// Whether there is room for one more, from that peer; asked when it has greeted. The error is what the
    /// peer is told.
    std::function<Result<void>(const Address& peer)> admit;
  };

  /// `finished` is called once, on the loop's thread, when nothing of it is left but the object. A channel on
  /// which a survivor comes for an orphan goes over to the orphan's reception. Errors: resource_limit (no
  /// thread); `channel` is then still the caller's.
  static Result<std::shared_ptr<Reception>> begin(const Services& services, control::Channel&& channel,
                                                  FinishedHandler finished);
  ~Reception();

  /// Gives up and tells the sender why; `finished` follows.
  void stop(Error cause);

  /// It takes up one of the agent's places.
  bool is_admitted() const { return admitted_; }
  /// Of the job that it was offered, while it is not over.
  bool is_of(const session::SessionId& session) const {
    return job_offered_ && !participant_.finished() && participant_.session() == session;
  }

 private:
  /// Where a channel's messages go.
  struct Inbox {
    std::weak_ptr<Reception> owner;
  };

  /// What a receiver needs before it accepts a job.
  struct Prepared {
    std::unique_ptr<ReceivedFile> file;
    std::unique_ptr<DataPlaneProxy> data_plane;
  };

  Reception(const Services& services, control::Channel channel, FinishedHandler finished);

  // reception.cpp: the channel, the clock, and the end
  void pump();
  void arm_timer();
  void on_timer();
  void on_message(std::vector<std::byte> message);
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

  // reception_orphan.cpp: the sender is dead
  void handle(session::LeadRequested& request);
  void give_away(const session::Takeover& takeover, std::vector<std::byte> message);
  bool follow(session::MemberId leader);
  void adopt(control::Channel channel, std::shared_ptr<Inbox> inbox, const std::vector<std::byte>& message);

  // reception_epoch.cpp: the data plane
  void handle(session::FormRequested& request);
  Result<group::Store*> make_store();
  void handle(session::PeersReady& peers);
  void handle(const session::StartData& start);
  void handle(const session::EndData& end);
  DataPlane::Events data_plane_events();
  void on_delivered(Epoch epoch);
  auto plane_answers() {
    return PlaneAnswers{weak_from_this(), &Reception::participant_, &Reception::give_up, &Reception::pump};
  }

  const Services& services_;
  control::ControlLoop& loop_;
  std::optional<control::Channel> channel_;
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  FinishedHandler finished_;
  session::Participant participant_;
  control::Timer timer_;
  Time timer_at_ = Time::never();
  Time start_;
  JobDescription job_;
  Outcome outcome_;
  bool pumping_ = false;
  bool spoken_to_ = false;
  bool stopped_ = false;
  bool admitted_ = false;
  bool job_offered_ = false;
  bool follows_own_ = false;  // its coordinator is new_coordinator_
  bool channel_closed_ = false;
  bool cleaned_up_ = false;
  BlockMap epoch_blocks_;   // of the epoch being formed
  bool is_source_ = false;  // of it
  bool is_straggler_ = false;
  TransferWishes wishes_;  // as it says
  std::shared_ptr<NewCoordinator> new_coordinator_;
  std::unique_ptr<ReceivedFile> file_;  // the worker's, while a task of it runs
  std::unique_ptr<DataPlaneProxy> data_plane_;
  std::shared_ptr<DataWatch> watch_;  // while an epoch runs
  std::stop_source unwanted_;         // the file will not be complete here
  std::unique_ptr<FileSink> sink_;
  std::optional<SourceFile> own_source_;  // the same file, read by source_
  std::unique_ptr<FileSource> source_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<Worker> committer_;  // a commit may take long, and others may need our blocks meanwhile
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

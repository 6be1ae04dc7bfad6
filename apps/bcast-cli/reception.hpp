// One file that is being received: the session's Participant on a channel, the data plane, the partial file,
// and the workers for calls that block. After the sender's death it may also have a NewCoordinator. It lives
// on the control loop's thread. Its owner must keep it until the finished handler is called. Answers from
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
#include "apps/program/worker.hpp"
#include "controlplane/connect/channel.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "controlplane/session/participant.hpp"
#include "controlplane/session/takeover.hpp"

namespace rdmc::bcast {

class Reception : public std::enable_shared_from_this<Reception> {
 public:
  /// The result. `path` is empty if no job was offered, if the job was invalid, or if the job was not
  /// encrypted although this agent requires encryption.
  struct Outcome {
    std::string peer;
    std::string path;
    ReceiverEvent event;
    bool dry_run = false;
    /// The reason why the peer offered no acceptable job. Empty if stop() ended the reception.
    std::optional<Error> strange;
  };
  using FinishedHandler = std::move_only_function<void(const Outcome&)>;
  /// The reception services, which all receptions of one agent share. They must outlive the receptions.
  struct Services {
    control::ControlLoop& loop;
    ReceiveDirectory directory;
    std::shared_ptr<peer::Peers> peers;  ///< accepts the senders, and connects to other survivors
    FabricChoice fabric;
    /// Returns the reception of that session, if there is one.
    std::function<std::shared_ptr<Reception>(const session::SessionId&)> find;
    /// Returns an error if no further transfer may begin. Called when `peer` has sent its first message. The
    /// error is sent to the peer.
    std::function<Result<void>(const Address& peer)> admit;
  };

  /// Begins a reception. `finished` is called once, on the loop's thread, when nothing is left except the
  /// object. If a survivor uses the channel to reach an orphan of this agent, the channel moves to the
  /// orphan's reception. Errors: resource_limit if no thread can be started. Then the caller still owns
  /// `channel`.
  static Result<std::shared_ptr<Reception>> begin(const Services& services, control::Channel&& channel,
                                                  FinishedHandler finished);
  ~Reception();

  /// Gives up and sends the cause to the sender. `finished` is called later.
  void stop(Error cause);

  /// True if this reception counts as one of the agent's transfers (see kMaxReceptions).
  bool is_admitted() const { return admitted_; }
  /// True if this reception has a job of `session` that has not ended yet.
  bool is_of(const session::SessionId& session) const {
    return job_offered_ && !participant_.finished() && participant_.session() == session;
  }

 private:
  /// The reception that gets a channel's messages. It changes if the channel moves to another reception.
  struct Inbox {
    std::weak_ptr<Reception> owner;
  };

  /// The objects that a receiver needs before it accepts a job.
  struct Prepared {
    std::unique_ptr<ReceivedFile> file;
    std::unique_ptr<DataPlaneProxy> data_plane;
  };

  Reception(const Services& services, control::Channel channel, FinishedHandler finished);

  // Defined in reception.cpp: the channel, timers, and the end.
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
  /// Calls run_for() with this reception's worker, and pump() after `then`.
  template <typename Work, typename Then>
  void in_background(Work work, Then then);

  // Defined in reception_job.cpp: the job and the file.
  void handle(session::JobOffered& offered);
  void handle(const session::CommitRequested&);
  void handle(const session::AbortRequested&);
  void claim_file();
  void tear_down(std::move_only_function<void()> then);
  void drop_file(std::move_only_function<void()> then);

  // Defined in reception_orphan.cpp: the actions after the sender's death.
  void handle(session::LeadRequested& request);
  void give_away(const session::Takeover& takeover, std::vector<std::byte> message);
  bool follow(session::MemberId leader);
  void adopt(control::Channel channel, std::shared_ptr<Inbox> inbox, const std::vector<std::byte>& message);

  // Defined in reception_epoch.cpp: the data plane.
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
  bool follows_own_ = false;  // true if the coordinator of the participant is new_coordinator_
  bool channel_closed_ = false;
  bool cleaned_up_ = false;
  BlockMap epoch_blocks_;   // the blocks that the current epoch sends
  bool is_source_ = false;  // true if this member is the source of the current epoch
  bool is_straggler_ = false;
  TransferWishes wishes_;  // taken from the parameters of the last epoch
  std::shared_ptr<NewCoordinator> new_coordinator_;
  std::unique_ptr<ReceivedFile> file_;  // used by the worker while one of its tasks runs
  std::unique_ptr<DataPlaneProxy> data_plane_;
  std::shared_ptr<DataWatch> watch_;  // exists while an epoch runs
  std::stop_source unwanted_;         // stop is requested when it is known that the file will not be
                                      // completed here
  std::unique_ptr<FileSink> sink_;
  std::optional<SourceFile> own_source_;  // the received file, as source_ reads it
  std::unique_ptr<FileSource> source_;
  std::unique_ptr<Worker> worker_;
  // Separate from worker_, because a commit may take long, and other members may need blocks meanwhile.
  std::unique_ptr<Worker> committer_;
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

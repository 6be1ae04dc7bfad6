// The sending side of one transfer. It has the session's Coordinator with a channel to each receiver. It also
// has the root's Participant with its data plane and the source file. The Coordinator and the Participant run
// one epoch after the other. Messages between them are passed inside this object. Everything happens on the
// control loop's thread. The handlers of answers hold only a weak pointer to this object, because an answer
// may come after the object is destroyed. The transfer ends exactly once, with a result for every receiver.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/bcast-cli/data_plane_proxy.hpp"
#include "apps/bcast-cli/data_watch.hpp"
#include "apps/bcast-cli/events.hpp"
#include "apps/bcast-cli/file_source.hpp"
#include "apps/bcast-cli/plane_answers.hpp"
#include "apps/bcast-cli/progress.hpp"
#include "apps/bcast-cli/reporter.hpp"
#include "apps/bcast-cli/transfer_messages.hpp"
#include "apps/program/worker.hpp"
#include "controlplane/connect/channel.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "controlplane/peer/peers.hpp"
#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/participant.hpp"
#include "dataplane/relay/cost_model.hpp"

namespace rdmc::bcast {

struct SenderTarget {
  std::string name;  ///< the name in reports: an address, or a directory on this host
  std::string host;  ///< a host name or a numeric address
  std::uint16_t port = 0;
};

struct SenderConfig {
  JobDescription job;
  std::vector<SenderTarget> targets;
  control::Security security;
  /// The time that a host may take to accept the connection. The host may then take the same time again to
  /// answer the greeting.
  Duration connect_within{};
  /// True if a host that refuses the connection may have a receiver that is still starting. The sender then
  /// tries again within `connect_within`.
  bool refused_may_come = false;
  TransferWishes wishes;
  /// If set, the algorithm is chosen anew for each epoch from these properties of the paths. Otherwise the
  /// algorithm is wishes.algorithm.
  std::optional<relay::PathParameters> auto_paths;
  FabricChoice fabric;
};

struct SenderResult {
  SummaryEvent summary;
  std::vector<session::Status> statuses;  ///< in the order of the targets
  std::optional<Error> interrupted;       ///< set if stop() or an error of this process ended the transfer
  bool named_twice = false;               ///< true if `interrupted` reports that two targets are the same
                                          ///< agent
};

class Sender : public std::enable_shared_from_this<Sender> {
 public:
  using FinishedHandler = std::move_only_function<void(SenderResult)>;

  /// Starts a transfer. May be called from any thread. `source` and `reporter` must outlive the sender.
  /// `finished` is called once, on the loop's thread, when all channels are closed. Errors: resource_limit if
  /// no thread can be started.
  static Result<std::shared_ptr<Sender>> start(control::ControlLoop& loop, SourceFile& source,
                                               Reporter& reporter, SenderConfig config,
                                               session::SessionId session, FinishedHandler finished);
  ~Sender();

  /// Ends the transfer at every receiver that has not committed yet. Must be called on the loop's thread.
  void stop(Error cause);

 private:
  struct Receiver {
    peer::Peers::Handle opening;
    control::Timer again;  ///< starts the next connection attempt
    std::optional<control::Channel> channel;
    bool open = false;  ///< true from when the channel is opened until its end is reported
    bool is_distance_known = false;
    bool accepted = false;  ///< true if, in a dry run, the receiver would accept the file
    std::uint64_t bytes = 0;
    bool is_straggler = false;  ///< true if the receiver has been reported as a straggler
  };

  Sender(control::ControlLoop& loop, SourceFile& source, Reporter& reporter, SenderConfig config,
         session::SessionId session, FinishedHandler finished);

  // Defined in sender.cpp: connections, timers, results, the end.
  void begin();
  void connect(std::size_t index);
  void on_connected(std::size_t index, Result<control::Channel> channel);
  bool is_named_twice(std::size_t index, const Address& peer);
  void on_closed(std::size_t index, const Error& cause);
  void notice_absence();
  void pump();
  void give_up(Error cause);
  void arm_timer();
  void handle(session::Send& send);
  void handle(const session::CloseChannel& close);
  void handle(const session::ConnectRequested& request);
  void handle(const session::Progressed& progressed);
  void handle(const session::DeliveryReported& report);
  void handle(session::MemberFinished& finished);
  void handle(session::JobFinished& finished);
  bool awaits_goodbye() const;
  void finish_if_done();
  Receiver& receiver(session::MemberId member) { return receivers_.at(value_of(member) - 1); }

  // Defined in sender_epoch.cpp: the blocks that an epoch sends, and the root's participant in the epoch.
  void handle(session::ParametersNeeded& needed);
  std::optional<Error> mixed_families(const session::ParametersNeeded& needed) const;
  void handle(session::FormRequested& request);
  void handle(session::PeersReady& peers);
  void handle(const session::StartData& start);
  void handle(const session::EndData& end);
  void handle_own(session::Send& send);
  void handle_own(session::CloseChannel&);
  void handle_own(session::JobOffered&);
  void handle_own(session::AbortRequested&);
  template <typename Event>
  void handle_own(Event& event) {
    if constexpr (requires { handle(event); }) handle(event);  // all other events need no action here
  }
  void open_data_plane(std::move_only_function<void()> then);
  void form(const session::FormRequested& request);
  Result<Address> data_address() const;
  Ranking rank(const session::ParametersNeeded& needed);
  void choose_algorithm(const relay::Racks& racks, std::uint32_t members);
  void notice_round_trip(session::MemberId member);
  void tear_down(std::move_only_function<void()> then);
  auto plane_answers() {
    return PlaneAnswers{weak_from_this(), &Sender::participant_, &Sender::give_up, &Sender::pump};
  }
  void announce(const Digest& digest);

  control::ControlLoop& loop_;
  SourceFile& source_;
  Reporter& reporter_;
  SenderConfig config_;
  FinishedHandler finished_;
  std::shared_ptr<peer::Peers> peers_;
  session::Coordinator coordinator_;
  session::Participant participant_;          // the root's participant
  std::vector<Receiver> receivers_;           // at index i, the member with the id i + 1
  std::map<Address, std::size_t> connected_;  // the index in receivers_ for each address
  Progress progress_;
  control::Timer timer_;
  control::Timer last_words_;
  Time timer_at_ = Time::never();
  Time start_;
  Duration away_{};    // the duration of the last stop of this process, for example by SIGSTOP
  Time away_until_{};  // the time when that stop ended
  SenderResult result_;
  bool pumping_ = false;
  bool job_finished_ = false;
  bool dry_run_over_ = false;  ///< true if the dry run has ended as planned
  bool cleaned_up_ = false;
  bool last_words_over_ = false;
  BlockMap epoch_blocks_;
  relay::Racks epoch_racks_;
  std::uint32_t epoch_stragglers_ = 0;
  bool racks_are_hosts_ = false;
  std::optional<Duration> least_round_trip_;  // the shortest round trip to any receiver
  std::optional<Digest> digest_;              // the digest of the whole source, set when the source has been
                                              // read
  std::unique_ptr<DataPlaneProxy> data_plane_;
  std::shared_ptr<DataWatch> watch_;  // exists while an epoch runs
  std::unique_ptr<FileSource> store_;
  std::unique_ptr<Worker> worker_;  // opens the data plane and ends stores, because both may block
};

}  // namespace rdmc::bcast

// A coordinator and its participants on a fake network in virtual time. Every process has real state machines
// of the session. Its application answers events after short random delays. Its data plane consists of only a
// clock and a few blocks. The process of the root has the coordinator in addition to its participant. If
// another participant becomes the coordinator, its process also has both. Tests inject faults at certain
// times or at certain events, run the world, and check what each process has recorded. Everything runs on one
// thread. The options and the faults determine the whole run.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/participant.hpp"
#include "controlplane/session/takeover.hpp"
#include "dataplane/base/random.hpp"

namespace rdmc::session::test {

/// The blocks of the fake file, one bit for each block.
inline constexpr int kBlocks = 16;
inline constexpr std::uint32_t kWhole = (1u << kBlocks) - 1;

struct Options {
  std::size_t participants = 3;
  std::uint64_t seed = 1;
  Timing timing;
  Duration min_delay = microseconds(50), max_delay = milliseconds(2);
  /// The longest time that a member's data takes if nothing disturbs the epoch.
  Duration data_time = milliseconds(400);
  /// The time without progress after which a data path suspects a neighbour.
  Duration data_patience = milliseconds(450);
  /// The order of ranks that the root's application requests.
  std::vector<MemberId> order{};
  /// The probability, in millionths, that a tick of a data path changes the member that delays the data
  /// path's ring buffer.
  std::uint32_t lags_per_million = 0;
};

/// The ways in which a participant's application differs from a correct one.
struct Behaviour {
  bool wrong_digest = false;
  /// The participant's data never advances, and no data path notices this.
  bool never_progresses = false;
  /// The participant answers neither this event nor any later event.
  std::optional<std::string> mute_from;
  /// The participant reports "disk full" when it gets this event.
  std::optional<std::string> fails_at;
};

/// An event that the application of a process has received. Process 0 is the root.
struct Record {
  Time at{};
  std::size_t process = 0;
  std::string event;
  Epoch epoch{};
  /// The names that an EndData or AlsoFailed contains.
  std::set<std::string> failed;
  /// The names that a FormRequested contains.
  std::vector<std::string> members;
  std::optional<Status> status;
  Error cause;
  /// The number of blobs in a PeersReady whose sender and receiver are the right members.
  std::size_t blobs = 0;
  /// The member that a MemberFinished or a DeliveryReported names.
  std::string subject;
};

class World {
 public:
  explicit World(Options options);

  Behaviour& behaviour(std::size_t process) { return processes_[process].behaviour; }
  void at(Time when, std::function<void()> action);
  /// Calls `action` after the process has recorded `event` for the `count`th time and the time `after` has
  /// passed.
  void on(std::size_t process, std::string event, std::function<void()> action, int count = 1,
          Duration after = {});

  void kill(std::size_t process);
  void pause(std::size_t process, Duration length);
  /// Stops the process for ever. Its channels stay open, so other processes notice only its silence.
  void freeze(std::size_t process) { processes_[process].paused_until = Time::never(); }
  /// All control messages to and from the process are lost, but no channel closes.
  void cut(std::size_t process) { processes_[process].cut = true; }
  /// All control messages between the root and the process are lost, but no channel closes.
  void cut_from_root(std::size_t process) { processes_[process].cut_from_root = true; }
  /// After this call, the root never sends the report that every copy must match.
  void forget_expected() { expects_ = false; }
  void break_data_link(std::size_t a, std::size_t b) {
    broken_links_.insert({std::min(a, b), std::max(a, b)});
  }
  void refuse_connection(std::size_t process, Error cause);
  /// Gives the bytes to the root as if the participant `process` had sent them. If `to_participant` is true,
  /// gives the bytes to this participant as if the root had sent them.
  void inject(std::size_t process, Bytes bytes, bool to_participant = false);
  /// Passes every control message between the root and the process through `change`, in both directions.
  void tamper(std::size_t process, std::function<void(Bytes&)> change) {
    processes_[process].tamper = std::move(change);
  }
  void interrupt(Error cause);

  /// Runs until the job has ended in every living process, or until `limit`. Returns false if a living
  /// process has not ended.
  bool run(Time limit);

  Time now() const { return now_; }
  const std::vector<Record>& records() const { return records_; }
  const Record* find(std::size_t process, std::string_view event, int count = 1) const;
  int count(std::size_t process, std::string_view event) const;
  /// outcome() returns the participant's outcome that the root's application has received. own_outcome()
  /// returns the outcome that the participant's own application has received.
  const Record* outcome(std::size_t process) const;
  const Record* own_outcome(std::size_t process) const { return find(process, "Finished"); }
  bool alive(std::size_t process) const { return processes_[process].alive; }
  Coordinator& coordinator() { return *processes_[0].coordinator; }
  /// The blocks that a participant has.
  std::uint32_t held(std::size_t process) const { return processes_[process].held; }
  /// Returns true if the process has been in an epoch, has no outcome yet, and is not stopped.
  bool takes_part(std::size_t process) const;
  const Participant& participant(std::size_t process) const { return *processes_[process].participant; }
  std::uint64_t trace_hash() const { return trace_hash_; }
  std::size_t size() const { return processes_.size(); }
  static std::string name_of(std::size_t process);

 private:
  struct Process {
    std::unique_ptr<Participant> participant;
    /// The root has a coordinator, and so has a survivor that has become the coordinator.
    std::unique_ptr<Coordinator> coordinator;
    /// The error of a connection to this process after the process has died.
    Error refusal{Errc::peer_failed, "refused the connection"};
    /// The process with the coordinator that this participant follows.
    std::size_t follows = 0;
    /// The number of coordinators that this process has had so far. An answer to an earlier coordinator is
    /// ignored.
    std::uint64_t lead = 0;
    Behaviour behaviour;
    bool alive = true, cut = false, cut_from_root = false, mute = false;
    std::function<void(Bytes&)> tamper;
    Time paused_until{};
    /// The inputs that arrived while the process was paused.
    std::vector<std::function<void()>> late;
    Time timer_at = Time::never();
    /// The epoch whose data runs in this process, or 0 if there is none.
    Epoch epoch{};
    Rank rank{};
    std::vector<std::string> members;
    Duration data_done{}, data_needed{}, stalled{};
    bool has_delivered = false, is_source = false;
    /// The blocks that the process has.
    std::uint32_t held = 0;
    /// The blocks that the epoch sends.
    std::uint32_t sent = 0;
    /// True if the process has reported that it has all blocks of the epoch.
    bool whole_epoch = false;
  };
  /// The channel between the process of a coordinator and the process of a participant.
  struct Link {
    /// The time of the last arrival in each direction. A later message must not arrive earlier, because a
    /// channel keeps the order.
    Time up_last{}, down_last{};
    bool upper_open = false, lower_open = false;
    /// True if this channel belongs to a failover and its first message has not yet arrived at the
    /// participant.
    bool fresh = false;
    /// Counts the channels between these two processes. Messages of an earlier channel are ignored.
    std::uint64_t generation = 0;
  };
  struct Event {
    Time at;
    std::uint64_t order;
    std::function<void()> action;
    bool operator>(const Event& other) const { return std::tie(at, order) > std::tie(other.at, other.order); }
  };
  struct Hook {
    std::size_t process;
    std::string event;
    int left;
    Duration after;
    std::function<void()> action;
  };

  void post(std::size_t process, Time when, std::function<void()> action);
  void drain(std::size_t process);
  void arm_timer(std::size_t process);
  void run_timers(std::size_t process);
  bool running(std::size_t process) const;
  void record(Record record);
  Time arrival(Time& last);
  Link& link(std::size_t upper, std::size_t lower) { return links_[{upper, lower}]; }
  bool is_cut(std::size_t upper, std::size_t lower) const {
    if (upper == 0 && processes_[lower].cut_from_root) return true;
    return upper != lower && (processes_[upper].cut || processes_[lower].cut);
  }
  void open(std::size_t upper, std::size_t lower);
  void send_down(std::size_t upper, std::size_t lower, Bytes bytes);
  void send_up(std::size_t lower, std::size_t upper, Bytes bytes);
  void arrive_below(std::size_t upper, std::size_t lower, const Bytes& bytes);
  bool follow(std::size_t upper, std::size_t lower);
  void close_down(std::size_t upper, std::size_t lower, const Error& cause);
  void close_up(std::size_t lower, std::size_t upper, const Error& cause);
  void drop_coordinator(std::size_t process);
  void answer(std::size_t process, std::function<void()> action);
  /// Does the same as answer(), for the application of a coordinator. The answer is ignored if this
  /// coordinator no longer exists.
  void answer_leading(std::size_t process, std::function<void(Coordinator&)> action);

  // Defined in fake_application.cpp.
  void lead(std::size_t process, CoordinatorOutput output);
  void choose(std::size_t process, const ParametersNeeded& needed);
  void connect(std::size_t upper, std::size_t lower);
  void handle(std::size_t process, ParticipantOutput output);
  void start_data(std::size_t process, Epoch epoch);
  void tick_data(std::size_t process, Epoch epoch);
  void take_blocks(std::size_t process, Epoch epoch);
  void end_data(std::size_t process) { processes_[process].epoch = Epoch{0}; }
  bool link_works(std::size_t a, std::size_t b) const;
  void suspect_neighbours(std::size_t process);
  std::size_t well_routed(const PeersReady& peers, Rank to) const;
  std::vector<PeerBlob> blobs_for_neighbours(const FormRequested& form) const;
  std::size_t index_of(const std::string& name) const;

  Options options_;
  Random random_;
  Time now_{};
  std::uint64_t next_order_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<Process> processes_;
  /// The key is (coordinator, participant).
  std::map<std::pair<std::size_t, std::size_t>, Link> links_;
  std::set<std::pair<std::size_t, std::size_t>> broken_links_;
  bool expects_ = true;
  std::vector<Hook> hooks_;
  std::vector<Record> records_;
  std::uint64_t trace_hash_ = 14695981039346656037u;
};

}  // namespace rdmc::session::test

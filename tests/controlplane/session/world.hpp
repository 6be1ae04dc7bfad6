// A coordinator and its participants on a fake network in virtual time: every process is a real session
// machine under an application that answers events after short random delays, with a data plane reduced to a
// clock and a few blocks. The root has the coordinator beside its participant, and so has a participant that
// takes its place. Tests inject
// faults at times or when an event is seen, run the world, and look at what each process recorded. One
// thread; a run is a function of the options and the faults.
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

/// The fake file: a bit for each block.
inline constexpr int kBlocks = 16;
inline constexpr std::uint32_t kWhole = (1u << kBlocks) - 1;

struct Options {
  std::size_t participants = 3;
  std::uint64_t seed = 1;
  Timing timing;
  Duration min_delay = microseconds(50), max_delay = milliseconds(2);
  Duration data_time = milliseconds(400);      ///< that a member's data takes when nothing disturbs its epoch
  Duration data_patience = milliseconds(450);  ///< after which a data path suspects a neighbour
  std::vector<MemberId> order{};               ///< of ranks, as the root's application wants it
  std::uint32_t lags_per_million = 0;          ///< how often a data path's tick changes who holds up its ring
};

/// How a participant's application differs from a good one.
struct Behaviour {
  bool wrong_digest = false;
  bool never_progresses = false;         ///< and nobody's data path notices
  std::optional<std::string> mute_from;  ///< does not answer this event, nor any later one
  std::optional<std::string> fails_at;   ///< reports "disk full" when it gets this event
};

/// Something that a process' application was told. Process 0 is the root.
struct Record {
  Time at{};
  std::size_t process = 0;
  std::string event;
  Epoch epoch{};
  std::set<std::string> failed;      ///< names in EndData and AlsoFailed
  std::vector<std::string> members;  ///< names in FormRequested
  std::optional<Status> status;
  Error cause;
  std::size_t blobs = 0;  ///< of a PeersReady, each from its rank to ours
  std::string subject;    ///< the member that a MemberFinished or DeliveryReported is about
};

class World {
 public:
  explicit World(Options options);

  Behaviour& behaviour(std::size_t process) { return processes_[process].behaviour; }
  void at(Time when, std::function<void()> action);
  /// Runs `action` `after` the process has recorded `event` for the `count`th time.
  void on(std::size_t process, std::string event, std::function<void()> action, int count = 1,
          Duration after = {});

  void kill(std::size_t process);
  void pause(std::size_t process, Duration length);
  /// Stopped for good, its channels open: silent.
  void freeze(std::size_t process) { processes_[process].paused_until = Time::never(); }
  /// All control messages of the process vanish; nothing closes.
  void cut(std::size_t process) { processes_[process].cut = true; }
  /// Only those to and from the root.
  void cut_from_root(std::size_t process) { processes_[process].cut_from_root = true; }
  /// The root never says what every copy must be like.
  void forget_expected() { expects_ = false; }
  void break_data_link(std::size_t a, std::size_t b) {
    broken_links_.insert({std::min(a, b), std::max(a, b)});
  }
  void refuse_connection(std::size_t process, Error cause);
  /// Hands bytes to the peer of the channel as if the participant (or, with `to_participant`, the root) had
  /// sent them.
  void inject(std::size_t process, Bytes bytes, bool to_participant = false);
  /// Every control message of the process passes through `change` on its way, in both directions.
  void tamper(std::size_t process, std::function<void(Bytes&)> change) {
    processes_[process].tamper = std::move(change);
  }
  void interrupt(Error cause);

  /// Until everything has ended or `limit` has come. False: somebody alive has not.
  bool run(Time limit);

  Time now() const { return now_; }
  const std::vector<Record>& records() const { return records_; }
  const Record* find(std::size_t process, std::string_view event, int count = 1) const;
  int count(std::size_t process, std::string_view event) const;
  /// What the root's application heard of a participant, and what the participant's own heard.
  const Record* outcome(std::size_t process) const;
  const Record* own_outcome(std::size_t process) const { return find(process, "Finished"); }
  bool alive(std::size_t process) const { return processes_[process].alive; }
  Coordinator& coordinator() { return *processes_[0].coordinator; }
  /// Blocks that a participant has.
  std::uint32_t held(std::size_t process) const { return processes_[process].held; }
  /// It has been in an epoch, has no outcome yet, and is not stopped.
  bool takes_part(std::size_t process) const;
  const Participant& participant(std::size_t process) const { return *processes_[process].participant; }
  std::uint64_t trace_hash() const { return trace_hash_; }
  std::size_t size() const { return processes_.size(); }
  static std::string name_of(std::size_t process);

 private:
  struct Process {
    std::unique_ptr<Participant> participant;
    std::unique_ptr<Coordinator> coordinator;                    ///< of the root, and of who leads on
    Error refusal{Errc::peer_failed, "refused the connection"};  ///< of a dead process' host
    std::size_t follows = 0;  ///< whose coordinator its participant talks to
    std::uint64_t lead = 0;   ///< counts its coordinators: answers to an older one are void
    Behaviour behaviour;
    bool alive = true, cut = false, cut_from_root = false, mute = false;
    std::function<void(Bytes&)> tamper;
    Time paused_until{};
    std::vector<std::function<void()>> late;  ///< what came while it was paused
    Time timer_at = Time::never();
    Epoch epoch{};  ///< whose data runs here; 0: none
    Rank rank{};
    std::vector<std::string> members;
    Duration data_done{}, data_needed{}, stalled{};
    bool has_delivered = false, is_source = false;
    std::uint32_t held = 0;    ///< blocks
    std::uint32_t sent = 0;    ///< blocks of the epoch
    bool whole_epoch = false;  ///< said so
  };
  /// The channel between a coordinator's process and a participant's.
  struct Link {
    Time up_last{}, down_last{};  ///< it keeps order
    bool upper_open = false, lower_open = false;
    bool fresh = false;            ///< nothing has arrived below yet
    std::uint64_t generation = 0;  ///< what was under way on an earlier channel is void
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
  /// For a coordinator's application: void when that coordinator is gone.
  void answer_leading(std::size_t process, std::function<void(Coordinator&)> action);

  // fake_application.cpp
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
  std::map<std::pair<std::size_t, std::size_t>, Link> links_;  ///< by (coordinator, participant)
  std::set<std::pair<std::size_t, std::size_t>> broken_links_;
  bool expects_ = true;
  std::vector<Hook> hooks_;
  std::vector<Record> records_;
  std::uint64_t trace_hash_ = 14695981039346656037u;
};

}  // namespace rdmc::session::test

// The links of one process to the other processes of its run. A link is made when the program first sends
// something to that process, or when that process connects to this one. The Links carry the records and the
// payload of a Messenger. Used on the thread that runs the engine.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "controlplane/peer/fabric_thread.hpp"
#include "dataplane/engine/engine.hpp"
#include "dataplane/fabric/frame_link.hpp"
#include "lib/replica/broken_links.hpp"
#include "lib/replica/carrier.hpp"
#include "lib/replica/messenger.hpp"
#include "lib/replica/perturbation.hpp"
#include "lib/replica/slab.hpp"

namespace rdmc::replica {

class Links final : public Carrier, public engine::Poller {
 public:
  /// The size of the frame ring on each side.
  static constexpr std::uint32_t kRingBytes = 128 * 1024;
  /// A peer that gives no sign of life for this time has failed. This is long, because a process may be
  /// stopped for a while. rdmc_run reports a death much earlier.
  static constexpr Duration kSilence = seconds(32);
  /// Acknowledgements and reports wait for this time, so that one of them can stand for many messages. With
  /// 0.2 ms, a program of four ranks on two cores took 1.5 times as long. Nobody waits for them: a message
  /// that its sender has not copied, and a quarter of a window of messages, are acknowledged at once.
  static constexpr Duration kDeferral = milliseconds(20);
  /// A message that has not been seen by the other replicas holds messages back for at most this time. It is
  /// longer than kSilence.
  static constexpr Duration kHoldPatience = seconds(40);
  /// While a hold lasts, it is chased once in this time.
  static constexpr Duration kChasePeriod = milliseconds(50);
  /// Two replicas that have each sent a message that the other one has not sent have diverged if nothing new
  /// is sent for this time. In a program whose messages have different orders at its replicas, they may only
  /// wait for slow ranks. So this is long.
  static constexpr Duration kDivergedPatience = seconds(40);
  /// The time between two turns of a Perturbation.
  static constexpr Duration kPerturbation = microseconds(100);
  /// The largest number of writes in flight on one link.
  static constexpr std::uint32_t kMostWrites = 64;

  /// The number of the recovery of which a process is the result, or 0. It tells a process from the dead one
  /// in whose place it is.
  using Incarnation = std::uint64_t;
  /// Called when this process should connect to `to`. `blob` is for the other side.
  using Dial = std::function<void(ProcessId to, Incarnation incarnation, fabric::ConnectionBlob blob)>;

  /// Joins the engine of `thread`, which must exist longer. `own` is this process.
  Links(peer::FabricThread& thread, ProcessId own, std::uint32_t processes, Dial dial);
  ~Links() override;
  /// Must be called before anything is sent or received. `messenger` must exist longer.
  /// `perturbation` may be null. It is for processes without replicas, and must exist longer, too.
  void serve(Messenger& messenger, Perturbation* perturbation = nullptr) {
    messenger_ = &messenger;
    perturbation_ = perturbation;
  }

  /// A new process takes the place of a dead one. This process connects to it only after on_joined(). The
  /// other one may connect to this one at any time.
  void on_recovering(ProcessId process, Incarnation incarnation);
  /// The new process can be connected to.
  void on_joined(ProcessId process);
  Incarnation incarnation(ProcessId process) const {
    return entries_[static_cast<std::uint32_t>(process)].incarnation;
  }
  /// In a copy of the process that fork() has made: forgets all links, and joins the engine of `thread`. The
  /// Messenger gets no space before connect_again() is called.
  void forget_all(peer::FabricThread& thread, ProcessId own);
  void connect_again();

  /// Another process wants to connect. Returns the blob for it. Errors: already_exists if this process dials
  /// that one itself and its dial goes first, or if there is a link already; those of FrameLink.
  Result<fabric::ConnectionBlob> accept(ProcessId from, std::span<const std::byte> blob);
  /// The other process has answered the dial. Errors: those of FrameLink::connect.
  Result<void> connect(ProcessId to, std::span<const std::byte> blob);
  /// Both sides are connected. From now on, records may be sent.
  void open(ProcessId process);
  /// The link has failed. If no rank has replicas, the process counts as dead from now on. Otherwise this
  /// process must not decide that alone: broken() has the link until on_died() is called for the process.
  void fail(ProcessId process, const Error& cause);
  /// Does the same, but only if the link is not open yet.
  void give_up(ProcessId process, const Error& cause);
  /// The process is dead. What depends on it fails with `cause`, or other replicas take its place.
  void on_died(ProcessId process, const Error& cause);
  BrokenLinks& broken() { return broken_; }
  /// The other process has ended its side of the link. The link ends when nothing more has arrived.
  void leave(ProcessId process) { entry(process).is_leaving = true; }
  /// Ends all links. After that, no peer reads or writes any memory here.
  void close(const Error& cause);

  /// Sends what has been filled, and the reports of credit that are due. Returns the number of frames.
  std::size_t flush();
  /// Does the same, except for frames that may wait (FrameLink::flush_when_due). So a program that begins
  /// many sends fills its frames.
  void flush_when_due();
  /// The number of processes to which this one has been connected.
  std::uint64_t connections() const { return connections_; }

  std::span<std::byte> room(ProcessId to, std::size_t least) override;
  void fill(ProcessId to, std::size_t bytes) override;
  bool can_write(ProcessId to) override;
  void write(ProcessId to, const Write& write) override;
  Result<Exposed> expose(ProcessId from, std::span<std::byte> memory, std::size_t piece) override;
  void withdraw(std::uint64_t handle) override;

  std::size_t work(Time now) override;
  Time next_deadline() const override {
    return failing_.empty() ? std::min({send_deferred_at_, release_at_, chase_at_, judge_at_, perturb_at_})
                            : Time{};
  }
  void on_out_of_memory() override;

 private:
  enum class State : std::uint8_t { none, expected, dialing, connected, open, broken, failed };
  struct Entry {
    State state = State::none;
    bool is_dirty = false;    ///< something was filled and not flushed
    bool is_leaving = false;  ///< see leave()
    bool lacks_room = false;  ///< the Messenger waits for space
    Incarnation incarnation = 0;
    std::unique_ptr<fabric::FrameLink> link;
  };

  Entry& entry(ProcessId process) { return entries_[static_cast<std::uint32_t>(process)]; }
  Result<void> make_link(Entry& entry);
  std::size_t poll(ProcessId from, Entry& entry);
  void watch_hold(Time now);
  void watch_sends(Time now);
  void perturb(Time now);
  Result<void> on_completion(ProcessId from, Entry& entry, const fabric::Completion& completion);

  peer::FabricThread* thread_;
  ProcessId own_;
  const Dial dial_;
  Messenger* messenger_ = nullptr;
  Perturbation* perturbation_ = nullptr;
  std::vector<Entry> entries_;
  bool may_dial_ = true;           ///< false between forget_all() and connect_again()
  std::vector<ProcessId> active_;  ///< processes whose links are connected or open
  std::vector<ProcessId> dirty_;
  /// Links that could not be made. The Messenger learns of them in the next turn, because it must not change
  /// in the middle of a call of room().
  std::vector<std::pair<ProcessId, Error>> failing_;
  BrokenLinks broken_;
  Time send_deferred_at_ = Time::never();
  std::optional<std::uint64_t> hold_;  ///< Messenger::oldest_hold() in the last turn
  Time release_at_ = Time::never();    ///< when this hold ends at the latest
  Time chase_at_ = Time::never();      ///< when this hold is chased next
  std::uint64_t sends_changed_ = 0;    ///< Messenger::sends_changed() in the last turn
  Time judge_at_ = Time::never();      ///< when replicas that wait have diverged
  Time perturb_at_ = Time::never();    ///< the next turn of the Perturbation
  Slab<std::unique_ptr<fabric::MemoryRegion>> exposed_;
  std::uint64_t connections_ = 0;
  std::array<fabric::Completion, 64> polled_;
};

}  // namespace rdmc::replica

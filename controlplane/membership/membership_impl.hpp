// The implementation of a Membership. It has two files: membership.cpp carries out the outputs of the failure
// view, and links.cpp has the links to the other processes. Everything runs on the control loop.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <optional>

#include "controlplane/connect/listener.hpp"
#include "controlplane/membership/greeting.hpp"
#include "controlplane/membership/membership.hpp"
#include "controlplane/membership/signs_of_death.hpp"

namespace rdmc::membership {

class Membership::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(std::shared_ptr<peer::Peers> peers, view::ViewStore& store, MembershipOptions options, Upcalls upcalls)
      : peers_(std::move(peers)),
        loop_(peers_->loop()),
        store_(store),
        options_(std::move(options)),
        upcalls_(std::move(upcalls)) {}

  Result<void> open();
  void close();

  Result<void> broadcast(std::span<const std::byte> bytes);
  Result<void> write(std::uint64_t offset, std::span<const std::byte> bytes);
  Result<void> remove(view::MemberId member);
  void leave();
  bool holds_lease(Epoch epoch) const;

  control::ControlLoop& loop() { return loop_; }
  const view::FailureView& core() const { return *core_; }
  const DataPath& data() const { return *data_; }
  Counters counters() const;

 private:
  /// The largest number of messages that are kept for one peer because they belong to the next epoch. They
  /// are kept until this process has installed that epoch.
  static constexpr std::size_t kMostEarly = 64;
  /// The number of times that the probe of an address is repeated, and the time between two probes. A process
  /// that ends closes its connections some milliseconds before its listener, so the first probes may still be
  /// answered.
  static constexpr int kProbes = 20;
  static constexpr Duration kProbeAgain = milliseconds(3);
  /// The delay before the first probe of an address if this process watches for the exit of the process
  /// there. The exit is usually seen within this time. Without the delay, all processes that had a connection
  /// to the dying process would probe its address at the same time, and the probes would slow down its exit.
  static constexpr Duration kExitSeenWithin = milliseconds(20);
  /// On each host, the first kWatchers members of the view watch all processes of the host, and all processes
  /// of the host watch these members. So the first two members of the whole view, which propose the next
  /// view, are always among the watched ones. All other processes are watched only after a connection to them
  /// has ended, because each watch needs a descriptor.
  static constexpr std::size_t kWatchers = 2;
  /// The time from the installation of a view until window grants are sent. No process needs a window to
  /// install a view, and after this time most other members have installed the view too.
  static constexpr Duration kGrantAfter = milliseconds(10);
  /// The failure view is informed if no new link exists this long after the end of a queue pair. It is not
  /// informed at once, because a queue pair also ends when the peer has made a new one.
  static constexpr Duration kReconnectWithin = milliseconds(100);
  /// The time until a process is dialed again after its link was dropped, because the two data paths are
  /// incompatible or because the process takes part in another group.
  static constexpr Duration kMismatchedAgain = seconds(1);

  /// A control channel and a queue pair to one process.
  struct Link {
    /// Empty until the channel is open.
    std::optional<control::Channel> channel;
    bool dialed = false;
    /// Set when the peer has sent its greeting.
    std::optional<view::MemberId> peer;
    /// The address of the peer's control listener.
    Address address;
    /// The number of the connection that `channel` uses, see peer::Peer::number().
    std::uint64_t connection = 0;
    /// True if this process's queue pair is connected. If `ready` is true too, messages use the data path.
    bool connected = false;
    /// True if the peer's queue pair is connected.
    bool ready = false;
    /// True if the newest view of this process contains the peer. If a later view does not contain the peer,
    /// the queue pair of the link is destroyed.
    bool member = false;
    /// The newest window grant of the peer.
    WindowGrant grant;
    std::deque<Data> early;
    /// Ends the link if the peer does not greet in time.
    control::Timer greeting_due;
  };

  /// A process that has sent a greeting to this process, and the watch for its exit, if this process watches
  /// it.
  struct KnownProcess {
    peer::Identity identity;
    std::unique_ptr<Watching> exit;
    /// True if the process was in a view and asked for a lease there.
    bool may_hold_lease = false;
    /// The time when the exit of the process was seen.
    std::optional<Time> died = {};
  };

  // Defined in membership.cpp.
  void drive();
  void on_timer();
  void handle(view::Output& output);
  void listen(view::RequestId request);
  void when_heard(std::function<void(Impl&)> action);
  void read_store(const view::ReadStore& read);
  void swap_store(const view::SwapStore& swap);
  void look_for_exits();
  void install(const view::View& view);
  void be_removed(const view::View& view);
  void tell_removed(const view::View& view);
  void fence_everybody();
  void take(Link& link, Data data);
  bool is_member() const { return core_->state() == view::FailureView::State::member; }
  std::optional<std::size_t> rank_of(view::MemberId id) const;
  void saw_death(view::MemberId id, ProcessIdentity process);
  void publish_lease();
  void end_without_memory();

  // Defined in links.cpp.
  void say(const Address& to, const view::Transmit& words);
  void send(LinkId id, Link& link, const Message& message, view::Way way = view::Way::data_path);
  bool is_ours_to_dial(const Address& address) const;
  bool is_dialing(const Address& address) const;
  void dial(const Address& address);
  void dial_refused(const Address& address);
  void probe(const Address& address, view::MemberId peer, int again = kProbes);
  void probe_later(const Address& address, view::MemberId peer, Duration delay, int again);
  void ask_listener(const view::AskListener& asked);
  std::optional<view::MemberId> who_is(const peer::Peer& process) const;
  bool has_link(view::MemberId peer) const;
  Link& add_link(bool dialed, const Address& address);
  void open_link(peer::Peer process, const Address& address);
  void on_request(peer::Request request);
  bool is_redundant(view::MemberId peer, bool dialed);
  void use(LinkId id, Link& link, control::Channel channel);
  Greeting greeting() const { return {core_->self().id, core_->self().address}; }
  void hear(LinkId id, std::span<const std::byte> bytes, bool is_authenticated);
  void greeted(LinkId id, Link& link, const Greeting& greeting, const peer::Identity& from,
               std::span<const std::byte> blob);
  void mismatched(LinkId id, const Address& address, const Error& cause);
  void became_ready(LinkId id, Link& link);
  void grant_windows();
  void channel_closed(LinkId id, const Error& cause);
  void path_failed(LinkId id);
  void drop(LinkId id);
  void forget_put_off();
  bool is_to_be_watched(view::MemberId peer) const;
  bool watch(view::MemberId peer);
  bool has_died(view::MemberId peer) const;
  void tend_watches();
  Link* find(LinkId id);

  /// Runs `action`. All work on the control loop in this class is run by this function. If memory runs out
  /// during an action, the membership ends, because the failure view may have missed an input.
  template <typename Action>
  void run(Action action) {
    if (closed_) return;
    // An inner call runs `action` directly, so only the outermost call ends the membership.
    if (is_running_) return action();
    is_running_ = true;
    try {
      action();
    } catch (const std::bad_alloc&) {
      end_without_memory();
    }
    is_running_ = false;
  }

  /// Returns a function that runs `action` if the membership still exists. That function must be called on
  /// the control loop.
  template <typename Action>
  static auto later(std::weak_ptr<Impl> self, Action action) {
    return [self = std::move(self), action = std::move(action)](auto&&... arguments) mutable {
      if (const auto impl = self.lock())
        impl->run([&] { std::invoke(action, *impl, std::forward<decltype(arguments)>(arguments)...); });
    };
  }
  template <typename Action>
  auto later(Action action) {
    return later(weak_from_this(), std::move(action));
  }

  const std::shared_ptr<peer::Peers> peers_;
  control::ControlLoop& loop_;
  view::ViewStore& store_;
  const MembershipOptions options_;
  const Upcalls upcalls_;
  std::optional<view::FailureView> core_;
  std::unique_ptr<DataPath> data_;
  peer::Peers::Handle service_;
  std::optional<control::Listener> listener_;
  control::Timer timer_, granting_;
  /// The time when `timer_` expires.
  Time armed_for_ = Time::never();
  bool closed_ = false, is_running_ = false, is_removed_told_ = false;

  std::uint64_t last_link_ = 0;
  std::map<LinkId, Link> links_;
  std::map<Address, peer::Peers::Handle> dialing_;
  /// The dials that find out which process listens at an address.
  std::map<Address, peer::Peers::Handle> asking_;
  /// The time before which an address must not be dialed again.
  std::map<Address, Time> put_off_;
  /// For each address that is being dialed, the newest message that waits for the link.
  std::map<Address, Bytes> unsaid_;
  std::map<Address, std::unique_ptr<Watching>> probes_;
  std::map<Address, control::Timer> probe_again_;
  std::map<view::MemberId, KnownProcess> processes_;
  std::map<view::MemberId, control::Timer> lost_paths_;
  /// The processes whose control loop thread has ended, and the watches for the exits of the whole processes.
  std::map<view::MemberId, std::unique_ptr<Watching>> ending_;
  /// The newest lease that the failure view has reported. Other threads of the application read it.
  struct Lease {
    Epoch epoch{};
    Time from = Time::never(), until{};
  };
  mutable std::mutex lease_mutex_;
  Lease lease_;
  /// The key of the membership window in the installed epoch.
  std::optional<WindowKey> window_;
  Counters counters_;
};

}  // namespace rdmc::membership

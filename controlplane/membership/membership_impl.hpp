// The inside of a Membership, in two parts: what the failure view asks for (membership.cpp), and the links to
// the other processes (links.cpp). The loop's thread.
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
  /// What the next epoch's messages wait in until we have installed it; so many of one peer.
  static constexpr std::size_t kMostEarly = 64;
  /// A process that ends closes its connections before its listener, a few milliseconds before.
  static constexpr int kProbes = 20;
  static constexpr Duration kProbeAgain = milliseconds(3);
  /// Whose exit we would see is asked only when we did not: all who had a connection ask at the same time,
  /// and keep it from dying.
  static constexpr Duration kExitSeenWithin = milliseconds(20);
  /// So many members of each host, the first of the view, watch all processes of the host, and all watch
  /// these. The first two of the view, who
  /// propose the next one, are among them; the others look when a connection ends. Each watch is a
  /// descriptor.
  static constexpr std::size_t kWatchers = 2;
  /// Nobody needs a window to install a view: grants leave when that is done everywhere, as a rule.
  static constexpr Duration kGrantAfter = milliseconds(10);
  /// A queue pair also ends when the peer has made another one.
  static constexpr Duration kReconnectWithin = milliseconds(100);
  /// Whose data path does not go with ours is dialed so seldom.
  static constexpr Duration kMismatchedAgain = seconds(1);

  /// A control channel and a queue pair to one process.
  struct Link {
    std::optional<control::Channel> channel;  ///< none while it is being opened
    bool dialed = false;
    std::optional<view::MemberId> peer;  ///< once it has greeted us
    Address address;                     ///< its control listener
    std::uint64_t connection = 0;        ///< the number of the one that `channel` is on, see peer::Peer
    bool connected = false;              ///< our queue pair; once both are, words go there
    bool ready = false;                  ///< the peer's
    bool member = false;                 ///< it has been in a view of ours: out of one it is to be fenced off
    WindowGrant grant;                   ///< the newest
    std::deque<Data> early;
    control::Timer greeting_due;  ///< until it has greeted us
  };

  /// Who has greeted us, and the watch for its exit, if there is one.
  struct KnownProcess {
    peer::Identity identity;
    std::unique_ptr<Watching> exit;
    bool may_hold_lease = false;    ///< it was in a view, and asked for leases there
    std::optional<Time> died = {};  ///< its exit was seen then
  };

  // membership.cpp
  void drive();
  void on_timer();
  void handle(view::Output& output);
  void listen(view::RequestId request);
  void when_heard(std::function<void(Impl&)> action);
  void read_store(const view::ReadStore& read);
  void swap_store(const view::SwapStore& swap);
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

  // links.cpp
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

  /// Everything that the loop's thread does here goes through this. When memory runs out in the middle of it,
  /// nobody knows what the failure view has missed, and the membership ends.
  template <typename Action>
  void run(Action action) {
    if (closed_) return;
    if (is_running_) return action();  // who called first ends the membership
    is_running_ = true;
    try {
      action();
    } catch (const std::bad_alloc&) {
      end_without_memory();
    }
    is_running_ = false;
  }

  /// `action` later on the loop's thread, if the membership is still there.
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
  Time armed_for_ = Time::never();  ///< when timer_ runs out
  bool closed_ = false, is_running_ = false, is_removed_told_ = false;

  std::uint64_t last_link_ = 0;
  std::map<LinkId, Link> links_;
  std::map<Address, peer::Peers::Handle> dialing_;
  std::map<Address, peer::Peers::Handle> asking_;  ///< who listens there
  std::map<Address, Time> put_off_;                ///< is not dialed before that
  std::map<Address, Bytes> unsaid_;                ///< the newest words to whom we are not connected yet
  std::map<Address, std::unique_ptr<Watching>> probes_;
  std::map<Address, control::Timer> probe_again_;
  std::map<view::MemberId, KnownProcess> processes_;
  std::map<view::MemberId, control::Timer> lost_paths_;
  std::map<view::MemberId, std::unique_ptr<Watching>> ending_;  ///< processes whose loop has ended
  /// What the core says of our lease, for the threads of the application.
  struct Lease {
    Epoch epoch{};
    Time from = Time::never(), until{};
  };
  mutable std::mutex lease_mutex_;
  Lease lease_;
  std::optional<WindowKey> window_;  ///< of the epoch that is installed
  Counters counters_;
};

}  // namespace rdmc::membership

// Every node listens, and connects to the nodes with lower numbers. To connect, it opens a channel to the
// service of the other node for this job, and sends its own offer. Then it gets the other node's offer,
// connects, and reports that it is connected. Any process that has the key can dial this node, for example a
// step of another job that now has the same addresses. Such a process finds no service of its own job here.
// Its attempt has no effect on this node.
#include "lib/include/rdmc/mesh.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "controlplane/peer/context.hpp"
#include "dataplane/base/bytes.hpp"
#include "lib/group/node_state.hpp"
#include "lib/identity_of.hpp"

namespace rdmc {
namespace {

constexpr Duration kAskAgain = milliseconds(50);
/// The longest turn of a node that the waiting thread drives.
constexpr Duration kTurn = milliseconds(10);
/// A time limit for a member that has found that another member has a different key. Such a member continues
/// to listen until it has refused as many connections as it has missing members. By then all missing members
/// know that the keys differ. The time is limited because some of them may not run, or may have given up
/// already.
constexpr Duration kFoundOutWithin = seconds(5);
constexpr std::size_t kMostJobBytes = 255;

std::string service_of(NodeId node, const std::string& job) {
  return "mesh/" + std::to_string(value_of(node)) + "/" + job;
}

/// Returns a greeting: the number of the node that sends it, in 4 bytes.
peer::Bytes greeting_of(NodeId node) {
  peer::Bytes greeting(sizeof(std::uint32_t));
  store_be(greeting.data(), value_of(node));
  return greeting;
}

std::string text(NodeId node) {
  return "node " + std::to_string(value_of(node));
}

class Mesh {
 public:
  Mesh(Node& node, std::span<const MeshMember> members, peer::Peers& peers, Duration timeout, std::string job)
      : node_(node), turns_(node), members_(members), peers_(peers), timeout_(timeout), job_(std::move(job)) {
    for (const MeshMember& member : members) {
      if (member.node != node.id()) missing_.insert(member.node);
    }
  }
  /// After the destructor has returned, no handler runs any more. The control loop ends all channels, dials
  /// and timers of this object. Until they have ended, the control loop may wait for turns of the node.
  ~Mesh() {
    std::atomic<bool> has_ended = false;
    const auto end = [this, &has_ended] {
      is_over_ = true;
      alive_.reset();
      service_ = {};
      listener_.reset();
      dials_.clear();
      again_.clear();
      channels_.clear();
      has_ended = true;
    };
    if (node_.has_own_thread()) {
      peers_.loop().call(end);
    } else {
      peers_.loop().post(end);
      while (!has_ended) node_.poll(kTurn);
    }
  }

  Result<void> run(const MeshMember& us) {
    const auto address = parse_address(us.host, us.port);
    if (!address) return std::unexpected(address.error());
    auto service = peers_.serve(service_of(node_.id(), job_),
                                [this](peer::Request request) { on_request(std::move(request)); });
    if (!service) return std::unexpected(service.error());
    service_ = std::move(*service);
    auto listener =
        peers_.listen(*address, {.channel = peers_.options()},
                      [this, alive = std::weak_ptr(alive_)](const Address& from, const Error& why) {
                        if (!alive.expired()) on_refused(from, why);
                      });
    if (!listener) return std::unexpected(listener.error());
    listener_.emplace(std::move(*listener));
    peers_.loop().post([this] {
      for (const MeshMember& member : members_)
        if (member.node < node_.id()) dial(member);
    });
    return wait();
  }

 private:
  /// Waits for `condition`, at most for `longest`. A node without a thread of its own is given turns
  /// meanwhile, because the requests of the other nodes are processed in these turns.
  template <typename Condition>
  void wait_until(std::unique_lock<std::mutex>& lock, Duration longest, Condition condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(longest.ns);
    if (node_.has_own_thread()) {
      over_.wait_until(lock, end, condition);
      return;
    }
    while (!condition() && std::chrono::steady_clock::now() < end) {
      lock.unlock();
      node_.poll(kTurn);
      lock.lock();
    }
  }

  Result<void> wait() {
    std::unique_lock lock(mutex_);
    wait_until(lock, timeout_, [this] { return missing_.empty() || failure_; });
    if (failure_) {
      const Error failure = *failure_;
      if (failure.code == Errc::authentication)
        wait_until(lock, kFoundOutWithin, [this] { return refused_ >= missing_.size(); });
      return std::unexpected(failure);
    }
    if (missing_.empty()) return {};
    std::string who;
    for (const NodeId node : missing_) who += (who.empty() ? "" : ", ") + text(node);
    return fail(Errc::timed_out, "not connected in time with " + who + remarks_);
  }

  void give_up(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = error;
    over_.notify_all();
  }

  void connected(NodeId node) {
    const std::lock_guard lock(mutex_);
    missing_.erase(node);
    over_.notify_all();
  }

  bool is_missing(NodeId node) {
    const std::lock_guard lock(mutex_);
    return missing_.contains(node);
  }

  void dial(const MeshMember& member) {
    dials_[member.node] =
        peers_.dial(member.host, member.port, timeout_, [this, &member](Result<peer::Peer> found) {
          if (is_over_) return;
          if (found) return open(*found, member);
          // The member may not listen yet, so it is dialled again. Another error, for example a wrong key, is
          // final.
          if (found.error().code != Errc::peer_failed) return give_up(named(member, found.error()));
          dial_again(member);
        });
  }

  void dial_again(const MeshMember& member) {
    again_[member.node] = peers_.loop().after(kAskAgain, [this, &member] { dial(member); });
  }

  /// Dials the member to find out which key it has. The member listens only for a limited time.
  void ask(const MeshMember& member) {
    dials_[member.node] =
        peers_.dial(member.host, member.port, timeout_, [this, &member](const Result<peer::Peer>& found) {
          if (is_over_) return;
          const Errc code = found ? Errc{} : found.error().code;
          if (!found && code == Errc::authentication) return give_up(named(member, found.error()));
          if (!found && code == Errc::peer_failed && is_missing(member.node)) return ask_again(member);
          asked_.erase(member.node);
        });
  }

  void ask_again(const MeshMember& member) {
    again_[member.node] = peers_.loop().after(kAskAgain, [this, &member] { ask(member); });
  }

  static Error named(const MeshMember& member, const Error& error) {
    return {error.code, text(member.node) + ": " + error.what};
  }

  void open(peer::Peer& process, const MeshMember& member) {
    auto offer = node_.offer(member.node);
    if (!offer) return give_up(offer.error());
    process.open(service_of(member.node, job_), {greeting_of(node_.id()), std::move(*offer)},
                 [this, &member, alive = std::weak_ptr(alive_)](Result<control::Channel> channel,
                                                                const peer::Offer& theirs) {
                   if (alive.expired()) return;
                   if (channel) return finish(std::move(*channel), member, theirs);
                   give_up(channel.error().code == Errc::not_found
                               ? Error{Errc::not_found, "another job is where " + text(member.node) +
                                                            " should be: " + channel.error().what}
                               : named(member, channel.error()));
                 });
  }

  void finish(control::Channel channel, const MeshMember& member, const peer::Offer& theirs) {
    if (auto connected = node_.connect(member.node, theirs.blob); !connected)
      return give_up(named(member, connected.error()));
    if (auto said = channel.send({std::byte{1}}); !said) return give_up(named(member, said.error()));
    channels_[member.node].emplace(std::move(channel)).close();
    connected(member.node);
  }

  /// Handles a request from a node with a higher number.
  void on_request(peer::Request request) {
    const auto& greeting = request.offer().greeting;
    const NodeId node{greeting.size() == sizeof(std::uint32_t) ? load_be<std::uint32_t>(greeting.data())
                                                               : value_of(node_.id())};
    if (!(node > node_.id()) || !is_missing(node) || channels_.contains(node))
      return request.refuse({Errc::protocol_error, text(node) + " is not expected here"});
    auto offer = node_.offer(node);
    auto connected = offer ? node_.connect(node, request.offer().blob) : std::unexpected(offer.error());
    if (!connected) {
      request.refuse(connected.error());
      return give_up({connected.error().code, text(node) + ": " + connected.error().what});
    }
    auto channel = request.accept({{}, std::move(*offer)});
    if (!channel) return give_up({channel.error().code, text(node) + ": " + channel.error().what});
    auto& kept = channels_[node].emplace(std::move(*channel));
    kept.start([this, node](const std::vector<std::byte>&) { this->connected(node); },
               [this, node](const Error& cause) {
                 if (is_missing(node)) give_up({cause.code, text(node) + ": " + cause.what});
               });
  }

  /// Called when a process with another key was refused here. It may be a member that this node waits for.
  /// Its address does not show which one, because a host has several addresses. So this node dials each
  /// missing member with a higher number at the member's own address, where only that member listens.
  void on_refused(const Address& from, const Error& why) {
    if (why.code != Errc::authentication) return;
    {
      const std::lock_guard lock(mutex_);
      remarks_ = "; somebody with another key came from " + host_string(from);
      ++refused_;
      over_.notify_all();
    }
    for (const MeshMember& member : members_) {
      if (member.node > node_.id() && is_missing(member.node) && asked_.insert(member.node).second)
        ask(member);
    }
  }

  Node& node_;
  NodeTurns turns_;
  const std::span<const MeshMember> members_;
  peer::Peers& peers_;
  const Duration timeout_;
  const std::string job_;
  peer::Peers::Handle service_;
  std::optional<control::Listener> listener_;

  // Only the control loop uses the following members, up to mutex_.
  bool is_over_ = false;
  /// Expires at the end, so that later callbacks do nothing.
  std::shared_ptr<char> alive_ = std::make_shared<char>();
  std::map<NodeId, peer::Peers::Handle> dials_;
  std::set<NodeId> asked_;  // Members that are dialled to find out their key.
  std::map<NodeId, control::Timer> again_;
  std::map<NodeId, std::optional<control::Channel>> channels_;

  std::mutex mutex_;
  std::condition_variable over_;
  std::set<NodeId> missing_;  // Members that are not connected yet.
  std::optional<Error> failure_;
  std::string remarks_;
  std::size_t refused_ = 0;  // Connections with another key that were refused here.
};

}  // namespace

Result<void> connect_mesh(Node& node, std::span<const MeshMember> members, const MeshOptions& options) {
  std::set<NodeId> nodes;
  for (const MeshMember& member : members) {
    if (!nodes.insert(member.node).second) {
      return fail(Errc::invalid_argument,
                  "a mesh with node " + std::to_string(value_of(member.node)) + " twice");
    }
  }
  if (auto may = NodeTurns::check_may_wait(node); !may) return may;
  const auto us = std::ranges::find(members, node.id(), &MeshMember::node);
  if (us == members.end()) return fail(Errc::invalid_argument, "a mesh that this node is no member of");
  if (options.insecure && node.encrypts())
    return fail(Errc::invalid_argument, "an insecure mesh would show the keys of a node that encrypts");
  if (options.job.size() > kMostJobBytes)
    return fail(Errc::invalid_argument, "a job's name of more than 255 bytes");
  const auto peers = node.context()->peers(identity_of(options));
  if (!peers) return std::unexpected(peers.error());
  if ((*peers)->loop().on_loop_thread())
    return fail(Errc::invalid_argument, "an upcall of a membership may not wait");
  return Mesh(node, members, **peers, options.timeout, options.job).run(*us);
}

}  // namespace rdmc

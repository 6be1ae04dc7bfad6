// Everybody listens, and connects to those with lower numbers; on each channel both say their number, their
// job and their offer, and then that they are connected. Who dials us may be anybody, a step of another job
// that has our addresses now, say: until it is known as one of us it ends nothing but its own channel.
#include "lib/include/rdmc/mesh.hpp"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "controlplane/connect/connector.hpp"
#include "controlplane/connect/identity.hpp"
#include "controlplane/connect/listener.hpp"
#include "dataplane/base/bytes.hpp"

namespace rdmc {
namespace {

constexpr Duration kAskAgain = milliseconds(50);
constexpr std::uint32_t kMostMessageBytes = 4096;
constexpr std::size_t kMostJobBytes = 255;
// Our number 4, version 1, length of the job's name 1; the name follows, then the offer. Before there were
// jobs the offer, whose first byte is its version, stood where the version is: both sides see that it
// differs.
constexpr std::size_t kGreetingHead = sizeof(std::uint32_t) + 2;
constexpr std::byte kGreetingVersion{3};

Result<control::Security> security_of(const MeshOptions& options) {
  const Certificates& files = options.certificates;
  return control::security_of({.key_file = options.key_file,
                               .certificates = {.authority = files.authority,
                                                .certificate = files.certificate,
                                                .private_key = files.private_key},
                               .insecure = options.insecure});
}

class Mesh {
 public:
  Mesh(Node& node, std::span<const MeshMember> members, const control::ChannelOptions& options,
       Duration timeout, std::string_view job)
      : node_(node), members_(members), options_(options), timeout_(timeout), job_(job) {
    for (const MeshMember& member : members) {
      if (member.node != node.id()) missing_.insert(member.node);
    }
  }

  Result<void> run(const MeshMember& us) {
    auto loop = control::ControlLoop::create();
    if (!loop) return std::unexpected(loop.error());
    loop_ = std::move(*loop);
    const auto address = parse_address(us.host, us.port);
    if (!address) return std::unexpected(address.error());
    auto listener = control::Listener::listen(
        *loop_, *address, {.channel = options_},
        {.on_channel = [this](control::Channel channel) { talk(std::move(channel), std::nullopt); },
         .on_refused = {}});
    if (!listener) return std::unexpected(listener.error());
    loop_->post([this] {
      for (const MeshMember& member : members_)
        if (member.node < node_.id()) dial(member);
    });
    auto result = wait();
    loop_.reset();  // no handler runs any more
    return result;
  }

 private:
  struct Talk {
    explicit Talk(control::Channel c) : channel(std::move(c)) {}
    control::Channel channel;
    std::optional<NodeId> peer;  // once it is known
    bool greeted = false;        // its greeting has come, and we are connected
    bool is_done = false;        // so is it
    bool is_stranger = false;    // it has dialed us, and is none of us
  };

  Result<void> wait() {
    std::unique_lock lock(mutex_);
    const auto over = [this] { return missing_.empty() || failure_; };
    if (!over_.wait_for(lock, std::chrono::nanoseconds(timeout_.ns), over)) {
      std::string who;
      for (const NodeId node : missing_) who += " " + std::to_string(value_of(node));
      return fail(Errc::timed_out, "not connected in time with node" + who);
    }
    if (failure_) return std::unexpected(*failure_);
    return {};
  }

  void give_up(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = error;
    over_.notify_all();
  }

  void dial(const MeshMember& member) {
    dialing_[member.node] = control::connect(*loop_, member.host, member.port, options_, timeout_,
                                             [this, &member](Result<control::Channel> channel) {
                                               if (channel) return talk(std::move(*channel), member.node);
                                               // It may not listen yet; a wrong key does not become right.
                                               if (channel.error().code != Errc::peer_failed)
                                                 return give_up(channel.error());
                                               again_[member.node] =
                                                   loop_->after(kAskAgain, [this, &member] { dial(member); });
                                             });
  }

  void talk(control::Channel channel, std::optional<NodeId> peer) {
    Talk& talk = *talks_.emplace_back(std::make_unique<Talk>(std::move(channel)));
    talk.channel.start([this, &talk](const std::vector<std::byte>& message) { on_message(talk, message); },
                       [this, &talk](const Error& cause) { on_closed(talk, cause); });
    if (peer) greet(talk, *peer);
  }

  /// Our number and our offer to it.
  void greet(Talk& talk, NodeId peer) {
    talk.peer = peer;
    const auto offer = node_.offer(peer);
    if (!offer) return give_up(offer.error());
    say(talk, greeting_with(*offer));
  }

  std::vector<std::byte> greeting_with(std::span<const std::byte> offer) const {
    std::vector<std::byte> greeting(kGreetingHead);
    store_be(greeting.data(), value_of(node_.id()));
    greeting[sizeof(std::uint32_t)] = kGreetingVersion;
    greeting.back() = static_cast<std::byte>(job_.size());
    const auto job = std::as_bytes(std::span(job_));
    greeting.insert(greeting.end(), job.begin(), job.end());
    greeting.insert(greeting.end(), offer.begin(), offer.end());
    return greeting;
  }

  void say(Talk& talk, std::vector<std::byte> message) {
    if (auto sent = talk.channel.send(std::move(message)); !sent) give_up(sent.error());
  }

  void on_message(Talk& talk, const std::vector<std::byte>& message) {
    if (talk.greeted) {
      talk.is_done = true;
      talk.channel.close();
      return;
    }
    if (message.size() < kGreetingHead) return refuse(talk, {Errc::protocol_error, "a greeting cut off"});
    if (message[sizeof(std::uint32_t)] != kGreetingVersion)
      return refuse(talk, {Errc::version_mismatch,
                           "another version of this library is at " + to_string(talk.channel.peer())});
    const auto job_bytes = std::to_integer<std::size_t>(message[kGreetingHead - 1]);
    if (message.size() < kGreetingHead + job_bytes)
      return refuse(talk, {Errc::protocol_error, "a greeting cut off"});
    const auto job = std::span(message).subspan(kGreetingHead, job_bytes);
    if (!std::ranges::equal(job, std::as_bytes(std::span(job_))))
      return refuse(talk, {Errc::not_found, "another job is at " + to_string(talk.channel.peer()) +
                                                ", where a member should be"});
    const NodeId peer{load_be<std::uint32_t>(message.data())};
    const bool is_member = std::ranges::find(members_, peer, &MeshMember::node) != members_.end();
    if (!is_member || peer == node_.id() || (talk.peer && talk.peer != peer)) {
      return refuse(talk,
                    {Errc::protocol_error, "node " + std::to_string(value_of(peer)) + " at " +
                                               to_string(talk.channel.peer()) + " is not who was expected"});
    }
    if (!talk.peer) greet(talk, peer);
    const auto offered = std::span(message).subspan(kGreetingHead + job_bytes);
    if (auto connected = node_.connect(peer, offered); !connected) return give_up(connected.error());
    talk.greeted = true;
    say(talk, {std::byte{1}});
  }

  /// Whoever has dialed is told who we are; what it does is no reason for us to end.
  void refuse(Talk& talk, const Error& error) {
    if (talk.peer) return give_up(error);
    if (std::exchange(talk.is_stranger, true)) return;
    static_cast<void>(talk.channel.send(greeting_with({})));
    talk.channel.close();
  }

  void on_closed(Talk& talk, const Error& cause) {
    if (talk.is_stranger || !talk.peer) return;
    if (!talk.is_done) return give_up(cause);
    const std::lock_guard lock(mutex_);
    missing_.erase(*talk.peer);
    over_.notify_all();
  }

  Node& node_;
  std::span<const MeshMember> members_;
  control::ChannelOptions options_;
  Duration timeout_;
  const std::string job_;
  std::unique_ptr<control::ControlLoop> loop_;
  std::map<NodeId, control::Connecting> dialing_;
  std::map<NodeId, control::Timer> again_;
  std::vector<std::unique_ptr<Talk>> talks_;
  std::mutex mutex_;
  std::condition_variable over_;
  std::set<NodeId> missing_;  // not connected yet
  std::optional<Error> failure_;
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
  const auto us = std::ranges::find(members, node.id(), &MeshMember::node);
  if (us == members.end()) return fail(Errc::invalid_argument, "a mesh that this node is no member of");
  if (options.insecure && node.encrypts())
    return fail(Errc::invalid_argument, "an insecure mesh would show the keys of a node that encrypts");
  if (options.job.size() > kMostJobBytes)
    return fail(Errc::invalid_argument, "a job's name of more than 255 bytes");
  const auto security = security_of(options);
  if (!security) return std::unexpected(security.error());
  const control::ChannelOptions channel{.security = *security, .max_message_bytes = kMostMessageBytes};
  return Mesh(node, members, channel, options.timeout, options.job).run(*us);
}

}  // namespace rdmc

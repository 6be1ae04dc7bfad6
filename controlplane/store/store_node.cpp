#include "controlplane/store/store_node.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <new>
#include <optional>
#include <set>
#include <utility>

#include "controlplane/auth/random.hpp"
#include "controlplane/connect/connector.hpp"
#include "controlplane/store/caspaxos/node.hpp"
#include "controlplane/store/journal_writer.hpp"
#include "dataplane/base/clock.hpp"

namespace rdmc::store {
namespace {

/// The largest number of groups that one client can watch. Further watches are ignored.
constexpr std::size_t kMostWatches = 64;
/// The delay before a hint is sent. Normally the members of a group inform each other sooner, and an earlier
/// hint would only delay them.
constexpr Duration kHintAfter = milliseconds(10);
constexpr Duration kReachWithin = seconds(2);
/// The largest number of messages that wait while a connection to another node is being made. If there are
/// more, the oldest message is dropped, and the core asks again.
constexpr std::size_t kMostUnsent = 16;

std::uint64_t seconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::seconds>(now).count()));
}

Result<void> check(const NodeOptions& options, const Durable& kept) {
  const std::size_t nodes = std::max<std::size_t>(options.nodes.size(), 1);
  if (nodes != 1 && nodes != kMostNodes) return fail(Errc::invalid_argument, "a store has one node or three");
  if (options.self >= nodes) return fail(Errc::invalid_argument, "the store has no node of that number");
  const std::vector<Id>& acceptors = (kept.next.epoch != 0 ? kept.next : kept.active).acceptors;
  const auto place = std::ranges::find(acceptors, kept.id);
  const auto number = static_cast<std::size_t>(place - acceptors.begin());
  if (kept.id && place != acceptors.end() && number != options.self)
    return fail(Errc::invalid_argument,
                options.directory + " belongs to node " + std::to_string(number) + " of the store");
  if (kept.active.epoch != 0 && kept.active.acceptors.size() != nodes)
    return fail(Errc::invalid_argument, options.directory + " belongs to a store of " +
                                            std::to_string(kept.active.acceptors.size()) + " nodes");
  return {};
}

}  // namespace

class StoreNode::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(control::ControlLoop& loop, const NodeOptions& options, const Node::Options& core, Durable kept,
       std::unique_ptr<JournalWriter> writer)
      : loop_(loop),
        options_(options),
        node_(core, std::move(kept), monotonic_now()),
        writer_(std::move(writer)),
        peers_(core.nodes) {}

  Result<void> listen() {
    control::ListenHandlers handlers;
    handlers.on_channel = [self = weak_from_this()](control::Channel channel) {
      if (const auto impl = self.lock(); impl && !impl->closed_) impl->accept(std::move(channel));
    };
    handlers.on_refused = [self = weak_from_this()](const Address&, const Error& cause) {
      if (const auto impl = self.lock()) ++impl->refused_[cause.code];
    };
    auto listener = control::Listener::listen(loop_, options_.listen, options_.channel, std::move(handlers));
    if (!listener) return std::unexpected(listener.error());
    listener_.emplace(std::move(*listener));
    loop_.call([this] { step([] {}); });
    return {};
  }

  void close() {
    listener_.reset();
    loop_.call([this] {
      closed_ = true;
      clients_.clear();
      peers_.clear();
      hints_due_ = {};
      timer_ = {};
    });
    writer_.reset();
  }

  const Address& address() const { return listener_->address(); }

  NodeStatus status() const {
    const NodeState state = node_.state();
    NodeStatus status{.stage = state.stage,
                      .text = state.text,
                      .ending = {},
                      .epoch = state.epoch,
                      .groups = node_.acceptor().groups(),
                      .accepted = node_.counters().accepted,
                      .overtaken = node_.counters().overtaken,
                      .clients = clients_.size(),
                      .requests = node_.counters().requests,
                      .refused = refused_};
    if (const Error* const ending = node_.ending()) status.ending = *ending;
    if (writing_since_) status.writing_for = monotonic_now() - *writing_since_;
    for (const auto& [id, client] : clients_) status.watches += client.watches.size();
    return status;
  }

 private:
  struct Client {
    control::Channel channel;
    std::uint64_t heard = 0;  ///< The value of turn_ when the client last sent a request.
    std::set<std::string> watches;
  };
  struct Peer {
    control::Connecting connecting;
    bool reaching = false;
    std::optional<control::Channel> channel;
    std::deque<Bytes> unsent;
  };

  // The functions for clients.

  /// If the largest number of clients is reached, closes the connection of the client that has been silent
  /// for the longest time.
  void make_room() {
    if (clients_.size() < kMostClients) return;
    clients_.erase(
        std::ranges::min_element(clients_, {}, [](const auto& entry) { return entry.second.heard; }));
  }

  void accept(control::Channel channel) {
    make_room();
    const Node::Client id = ++last_client_;
    Client& client = clients_.emplace(id, Client{std::move(channel), ++turn_, {}}).first->second;
    client.channel.start(
        [self = weak_from_this(), id](const Bytes& message) {
          if (const auto impl = self.lock(); impl && !impl->closed_) impl->serve(id, message);
        },
        [self = weak_from_this(), id](const Error&) {
          if (const auto impl = self.lock()) impl->clients_.erase(id);
        });
  }

  void serve(Node::Client id, std::span<const std::byte> message) {
    const auto client = clients_.find(id);
    if (client == clients_.end()) return;
    auto request = decode_request(message);
    if (!request) return static_cast<void>(clients_.erase(client));
    client->second.heard = ++turn_;
    if (const auto* const watch = std::get_if<Watch>(&request->body)) {
      if (client->second.watches.size() < kMostWatches) client->second.watches.insert(watch->name);
      return;
    }
    step([&] { node_.receive(id, std::move(*request), monotonic_now()); });
  }

  /// Sends a reply. If a client does not read its replies, its channel is closed.
  void answer(Node::Client id, const Reply& reply) {
    const auto client = clients_.find(id);
    if (client != clients_.end() && !client->second.channel.send(encode(reply))) clients_.erase(client);
  }

  void changed(Hint hint) {
    hints_[hint.name] = std::move(hint);
    if (hints_.size() != 1) return;
    hints_due_ = loop_.after(kHintAfter, [self = weak_from_this()] {
      if (const auto impl = self.lock(); impl && !impl->closed_) impl->tell_watches();
    });
  }

  void tell_watches() {
    for (auto& [name, hint] : std::exchange(hints_, {})) {
      const Reply reply{.id = 0, .acceptor = node_.acceptor().kept().id, .known = {}, .body = hint};
      std::vector<Node::Client> watching;
      for (const auto& [id, client] : clients_)
        if (client.watches.contains(name)) watching.push_back(id);
      for (const Node::Client id : watching) answer(id, reply);
    }
  }

  // The functions for the other nodes.

  void say(std::size_t number, Bytes message) {
    Peer& peer = peers_[number];
    // If the channel refuses a message, the message is lost, and the core asks again.
    if (peer.channel) return static_cast<void>(peer.channel->send(std::move(message)));
    peer.unsent.push_back(std::move(message));
    if (peer.unsent.size() > kMostUnsent) peer.unsent.pop_front();
    if (std::exchange(peer.reaching, true)) return;
    const Address& address = options_.nodes[number];
    peer.connecting =
        control::connect(loop_, host_string(address), address.port, options_.channel.channel, kReachWithin,
                         [self = weak_from_this(), number](Result<control::Channel> made) {
                           const auto impl = self.lock();
                           if (!impl || impl->closed_) return;
                           Peer& reached = impl->peers_[number];
                           reached.reaching = false;
                           // The node cannot be reached now. The core will ask again after its own pause.
                           if (!made) return reached.unsent.clear();
                           impl->use(number, std::move(*made));
                         });
  }

  void use(std::size_t number, control::Channel channel) {
    Peer& peer = peers_[number];
    peer.channel.emplace(std::move(channel));
    peer.channel->start(
        [self = weak_from_this(), number](const Bytes& message) {
          if (const auto impl = self.lock(); impl && !impl->closed_) impl->hear(number, message);
        },
        [self = weak_from_this(), number](const Error&) {
          if (const auto impl = self.lock(); impl && !impl->closed_) impl->peers_[number].channel.reset();
        });
    for (Bytes& message : std::exchange(peer.unsent, {}))
      static_cast<void>(peer.channel->send(std::move(message)));
    step([this] { node_.peer_up(monotonic_now()); });
  }

  void hear(std::size_t number, std::span<const std::byte> message) {
    const auto reply = decode_reply(message);
    if (!reply) return peers_[number].channel.reset();
    step([&] { node_.hear(number, *reply, monotonic_now()); });
  }

  // The actions that the core requests.

  /// Runs one step of the core, and all actions that follow from it. Memory may run out in the middle of the
  /// step. The state of the core may then differ from the state that it has written. So the node fails, in
  /// the same way as after a refused write.
  template <typename Step>
  void step(Step step) {
    try {
      step();
      pump();
    } catch (const std::bad_alloc&) {
      node_.fail({Errc::resource_limit, "no memory"});
    }
    if (is_ended_) return;
    const Error* const ending = node_.ending();
    if (ending == nullptr) return;
    is_ended_ = true;
    if (options_.ended) options_.ended(*ending);
  }

  void pump() {
    do {
      for (Node::ToPeer& to : node_.take_requests()) say(to.node, encode(to.request));
      for (const Node::ToClient& to : node_.take_replies()) answer(to.client, to.reply);
      for (Hint& hint : node_.take_hints()) changed(std::move(hint));
    } while (write());
    arm();
  }

  /// Begins the next write. Returns true if the write counts as durable at once, which is the case without a
  /// disk. More replies may then be sent.
  bool write() {
    if (writing_since_) return false;
    auto writes = node_.take_writes();
    if (writes.empty()) return false;
    const Time now = monotonic_now();
    const std::uint64_t sequence = writes.back().sequence;
    if (!writer_) {
      node_.synced(sequence, now);
      return true;
    }
    writer_->write(std::move(writes.front()),
                   [self = weak_from_this(), loop = &loop_, sequence](const Result<void>& written) {
                     // The weak pointer is not locked here. Otherwise the writer's own thread could become
                     // the last owner.
                     loop->post([self, sequence, written] {
                       if (const auto impl = self.lock(); impl && !impl->closed_)
                         impl->wrote(sequence, written);
                     });
                   });
    writing_since_ = now;
    return false;
  }

  void wrote(std::uint64_t sequence, const Result<void>& written) {
    writing_since_.reset();
    step([&] {
      if (written)
        node_.synced(sequence, monotonic_now());
      else
        node_.fail(written.error());
    });
  }

  void arm() {
    const Time deadline = node_.next_deadline();
    if (deadline == armed_) return;
    armed_ = deadline;
    if (deadline == Time::never()) return static_cast<void>(timer_ = {});
    const Duration delay = std::max(deadline - monotonic_now(), Duration{});
    timer_ = loop_.after(delay, [self = weak_from_this()] {
      const auto impl = self.lock();
      if (!impl || impl->closed_) return;
      impl->armed_ = Time::never();
      impl->step([&] { impl->node_.tick(monotonic_now()); });
    });
  }

  control::ControlLoop& loop_;
  const NodeOptions options_;
  Node node_;
  std::unique_ptr<JournalWriter> writer_;  ///< Null without a disk.
  std::optional<Time> writing_since_;
  std::optional<control::Listener> listener_;
  bool closed_ = false;
  bool is_ended_ = false;  ///< True after the node has ended and its owner was informed.

  Node::Client last_client_ = 0;
  std::uint64_t turn_ = 0;
  std::map<Node::Client, Client> clients_;
  std::map<Errc, std::uint64_t> refused_;
  std::map<std::string, Hint> hints_;  ///< The hints that have not been sent yet.
  control::Timer hints_due_;
  std::vector<Peer> peers_;  ///< Indexed by node number. The entry of this node is not used.
  Time armed_ = Time::never();
  control::Timer timer_;
};

Result<std::unique_ptr<StoreNode>> StoreNode::start(control::ControlLoop& loop, const NodeOptions& wanted) {
  NodeOptions options = wanted;
  options.channel.channel.max_message_bytes = kMostMessageBytes;
  const auto random = control::SystemRandom::open();
  if (!random) return std::unexpected(random.error());
  Durable kept;
  std::unique_ptr<JournalWriter> writer;
  if (!options.directory.empty()) {
    auto file = JournalFile::open(options.directory);
    if (!file) return std::unexpected(file.error());
    kept = file->recovered();
    auto started = JournalWriter::start(std::move(*file));
    if (!started) return std::unexpected(started.error());
    writer = std::move(*started);
  }
  if (auto valid = check(options, kept); !valid) return std::unexpected(valid.error());
  const auto any_id = [&] { return Id{random->next64(), random->next64()}; };
  const Node::Options core{.self = options.self,
                           .nodes = std::max<std::size_t>(options.nodes.size(), 1),
                           .fresh = any_id(),
                           .proposer = any_id(),
                           .seed = random->next64(),
                           .started = seconds_since_1970()};
  auto impl = std::make_shared<Impl>(loop, options, core, std::move(kept), std::move(writer));
  if (auto listening = impl->listen(); !listening) return std::unexpected(listening.error());
  return std::unique_ptr<StoreNode>(new StoreNode(std::move(impl)));
}

StoreNode::~StoreNode() {
  impl_->close();
}

const Address& StoreNode::address() const {
  return impl_->address();
}

NodeStatus StoreNode::status() const {
  return impl_->status();
}

}  // namespace rdmc::store

#include "controlplane/store/store_server.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "controlplane/store/store_messages.hpp"

namespace rdmc::store {
namespace {

/// Of one client; what it asks beyond is not served.
constexpr std::size_t kMostWatches = 64;
/// The members of a group hear of a change from each other sooner; what is said meanwhile delays them.
constexpr Duration kHintAfter = milliseconds(10);

}  // namespace

class StoreServer::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(control::ControlLoop& loop, RaftNode& node) : loop_(loop), node_(node) {}

  Result<void> listen(const Address& address, const control::ListenOptions& options) {
    control::ListenHandlers handlers;
    handlers.on_channel = [self = weak_from_this()](control::Channel channel) {
      if (const auto impl = self.lock()) impl->accept(std::move(channel));
    };
    handlers.on_refused = [self = weak_from_this()](const Address&, const Error& cause) {
      if (const auto impl = self.lock()) ++impl->traffic_.refused[cause.code];
    };
    auto listener = control::Listener::listen(loop_, address, options, std::move(handlers));
    if (!listener) return std::unexpected(listener.error());
    listener_.emplace(std::move(*listener));
    return {};
  }

  void close() {
    listener_.reset();
    loop_.call([this] {
      clients_.clear();
      hints_ = {};
    });
  }

  void changed(const std::string& group, Epoch epoch) {
    loop_.post([self = weak_from_this(), group, epoch] {
      const auto impl = self.lock();
      if (!impl) return;
      impl->changed_[group] = epoch;
      if (impl->changed_.size() == 1)
        impl->hints_ = impl->loop_.after(kHintAfter, [self] {
          if (const auto still = self.lock()) still->tell_watches();
        });
    });
  }

  const Address& address() const { return listener_->address(); }

  StoreTraffic traffic() const {
    StoreTraffic traffic = traffic_;
    traffic.clients = clients_.size();
    for (const auto& [id, client] : clients_) traffic.watches += client.watches.size();
    return traffic;
  }

 private:
  void tell_watches() {
    for (const auto& [group, epoch] : std::exchange(changed_, {})) {
      const Reply hint{.groups = {{group, {.epoch = epoch}}}, .hint = true};
      std::vector<std::uint64_t> watching;
      for (const auto& [id, client] : clients_)
        if (client.watches.contains(group)) watching.push_back(id);
      for (const std::uint64_t id : watching) answer(id, hint);
    }
  }

  struct Client {
    control::Channel channel;
    std::uint64_t heard = 0;  ///< when, in turns
    std::set<std::string> watches;
  };

  /// Who has been silent longest gives way: members ask every few seconds.
  void make_room() {
    if (clients_.size() < kMostClients) return;
    clients_.erase(
        std::ranges::min_element(clients_, {}, [](const auto& entry) { return entry.second.heard; }));
  }

  void accept(control::Channel channel) {
    make_room();
    const std::uint64_t id = ++last_client_;
    Client& client = clients_.emplace(id, Client{std::move(channel), ++turn_, {}}).first->second;
    client.channel.start(
        [self = weak_from_this(), id](const std::vector<std::byte>& message) {
          if (const auto impl = self.lock()) impl->serve(id, message);
        },
        [self = weak_from_this(), id](const Error&) {
          if (const auto impl = self.lock()) impl->clients_.erase(id);
        });
  }

  void serve(std::uint64_t id, std::span<const std::byte> message) {
    auto request = decode_request(message);
    const auto client = clients_.find(id);
    if (client == clients_.end()) return;
    if (!request) return static_cast<void>(clients_.erase(client));
    ++traffic_.requests;
    client->second.heard = ++turn_;
    const std::uint64_t number = request->id;
    if (auto* const swap = std::get_if<SwapCommand>(&request->body)) {
      const std::string group = swap->group;
      node_.swap(std::move(*swap), later<view::SwapResult>(id, number, [group](view::SwapResult& result) {
                   return Reply{.swapped = result.swapped, .groups = {{group, std::move(result.current)}}};
                 }));
    } else if (const auto* const read = std::get_if<ReadRequest>(&request->body)) {
      node_.read(read->group, later<view::View>(id, number, [group = read->group](view::View& view) {
                   return Reply{.groups = {{group, std::move(view)}}};
                 }));
    } else if (const auto* const watch = std::get_if<WatchRequest>(&request->body)) {
      if (client->second.watches.size() < kMostWatches) client->second.watches.insert(watch->group);
    } else {
      node_.list(later<std::vector<view::GroupView>>(id, number, [](std::vector<view::GroupView>& groups) {
        return Reply{.groups = std::move(groups)};
      }));
    }
  }

  /// What the node calls on its thread: the answer goes out on the loop's.
  template <typename T, typename MakeReply>
  std::move_only_function<void(Result<T>)> later(std::uint64_t client, std::uint64_t number, MakeReply make) {
    return [self = weak_from_this(), loop = &loop_, client, number, make](Result<T> result) {
      Reply reply = result ? make(*result) : Reply{.refused = result.error().what};
      reply.id = number;
      const auto impl = self.lock();
      if (!impl) return;
      loop->post([self, client, reply = std::move(reply)] {
        if (const auto still = self.lock()) still->answer(client, reply);
      });
    };
  }

  /// A client that does not read its answers loses its channel.
  void answer(std::uint64_t id, const Reply& reply) {
    const auto client = clients_.find(id);
    if (client != clients_.end() && !client->second.channel.send(encode(reply))) clients_.erase(client);
  }

  control::ControlLoop& loop_;
  RaftNode& node_;
  std::optional<control::Listener> listener_;
  std::uint64_t last_client_ = 0, turn_ = 0;
  std::map<std::uint64_t, Client> clients_;
  std::map<std::string, Epoch> changed_;  ///< and not said yet
  control::Timer hints_;
  StoreTraffic traffic_;  ///< what is counted
};

Result<std::unique_ptr<StoreServer>> StoreServer::listen(control::ControlLoop& loop, const Address& address,
                                                         const control::ListenOptions& options,
                                                         RaftNode& node) {
  auto impl = std::make_shared<Impl>(loop, node);
  if (auto listening = impl->listen(address, options); !listening) return std::unexpected(listening.error());
  return std::unique_ptr<StoreServer>(new StoreServer(std::move(impl)));
}

StoreServer::~StoreServer() {
  impl_->close();
}

const Address& StoreServer::address() const {
  return impl_->address();
}

StoreTraffic StoreServer::traffic() const {
  return impl_->traffic();
}

void StoreServer::changed(const std::string& group, Epoch epoch) {
  impl_->changed(group, epoch);
}

}  // namespace rdmc::store

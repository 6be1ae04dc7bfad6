// Runs nodes of the embedded store as separate processes, all with the same key.
#pragma once

#include "controlplane/auth/cluster_key.hpp"
#include "controlplane/store/embedded_store.hpp"
#include "controlplane/store/store_node.hpp"
#include "tests/controlplane/connect/harness.hpp"
#include "tests/controlplane/store/server_processes.hpp"
#include "tests/controlplane/store/store_client.hpp"

namespace rdmc::store::testing {

class StoreNodes final : public ServerProcesses {
 public:
  enum class Keeps : std::uint8_t { on_disk, in_memory };

  /// The nodes are not started.
  explicit StoreNodes(std::size_t nodes, Keeps keeps = Keeps::on_disk)
      : ServerProcesses(nodes), key_(control::ClusterKey::generate().value()), keeps_(keeps) {
    BOOST_TEST_REQUIRE(key_.write(key_file()).has_value());
  }
  void start_all() {
    for (std::size_t i = 0; i < size(); ++i) start(i);
  }

  static auto client_with(const control::ClusterKey& key) {
    return [&key](const std::vector<Address>& nodes) {
      return StoreClient([&](control::ControlLoop& loop) -> std::unique_ptr<view::ViewStore> {
        const control::ChannelOptions channel{.security = control::TlsContext::create(key).value()};
        return EmbeddedStore::create(loop, {.nodes = nodes, .channel = channel}).value();
      });
    };
  }
  auto clients() const { return client_with(key_); }
  StoreClient client() const { return clients()(endpoints()); }
  control::ChannelOptions channel() const { return control::testing::options_for(key_); }
  std::string journal(std::size_t index) const { return data(index) + "/journal"; }

 private:
  std::filesystem::path key_file() const { return directory() / "key"; }
  std::vector<std::string> command(std::size_t index) const override {
    std::vector<std::string> words{STORE_NODE, keeps_ == Keeps::on_disk ? data(index) : "-",
                                   std::to_string(index), to_string(servers()[index].client), key_file()};
    for (const Server& server : servers()) words.push_back(to_string(server.client));
    return words;
  }

  control::ClusterKey key_;
  const Keeps keeps_;
};

/// A client that has the key and sends arbitrary messages to one node.
class RawClient {
 public:
  RawClient(const Address& node, const control::ChannelOptions& options)
      : end_(harness_.connect_to(node, options)) {}

  /// Returns false if the node cannot be reached.
  bool is_up() {
    return harness_.events.wait([&] { return end_.established || !end_.refusals.empty(); }) &&
           end_.refusals.empty();
  }
  Result<void> say(Bytes message) {
    return harness_.loop->call([&] { return end_.channel->send(std::move(message)); });
  }
  /// Returns the answer to a request, or nullopt if the node closes the channel.
  std::optional<Reply> ask(decltype(Request::body) body) {
    const std::size_t before = end_.messages.size();
    if (!say(encode(Request{++last_, std::move(body)}))) return std::nullopt;
    BOOST_TEST_REQUIRE(
        harness_.events.wait([&] { return end_.messages.size() > before || !end_.closings.empty(); }));
    if (end_.messages.size() <= before) return std::nullopt;
    return decode_reply(end_.messages.back()).value();
  }
  bool is_closed() {
    return harness_.events.wait([&] { return !end_.closings.empty(); });
  }

 private:
  control::testing::Harness harness_;
  control::testing::End& end_;
  std::uint64_t last_ = 0;
};

/// Requests the state of a node until the node has reached `stage`. Returns false if kPatience has passed.
inline bool wait_for_stage(const StoreNodes& nodes, std::size_t index, Stage stage) {
  const auto limit = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < limit) {
    RawClient client(nodes.endpoints()[index], nodes.channel());
    if (!client.is_up()) continue;
    const auto reply = client.ask(StateRequest{});
    const auto* const state = reply ? std::get_if<NodeState>(&reply->body) : nullptr;
    if (state != nullptr && state->stage == stage) return true;
  }
  return false;
}

}  // namespace rdmc::store::testing

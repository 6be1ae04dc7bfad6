// This object knows which clients of this server have subscribed to which channels and patterns. It is no
// part of the replicated state: PUBLISH is executed at all servers, and each server gives the message to its
// own clients. One thread uses it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "apps/replicated-kv/commands/command.hpp"

namespace rdmc::kv {

class PubSub final : public Publisher {
 public:
  enum class Kind : std::uint8_t { channel = 0, pattern = 1 };
  /// The subscriptions of one client may need about this memory. A subscription needs that of its name twice,
  /// and kSubscriptionBytes.
  static constexpr std::size_t kMostClientBytes = 32 << 20, kSubscriptionBytes = 250;
  /// A message and the clients that get it, each with the pattern that the channel matches, or null if the
  /// client has subscribed to the channel itself.
  struct Publication {
    std::string channel, message;
    std::vector<std::pair<std::uint64_t, const std::string*>> receivers;
  };

  /// Returns false if the client has subscribed already.
  bool subscribe(std::uint64_t client, Kind kind, std::string_view name);
  /// Returns false if the client has not subscribed.
  bool unsubscribe(std::uint64_t client, Kind kind, std::string_view name);
  /// Forgets all subscriptions of the client.
  void forget(std::uint64_t client);
  bool has_subscribed(std::uint64_t client, Kind kind, std::string_view name) const;
  std::vector<std::string> names_of(std::uint64_t client, Kind kind) const;
  std::size_t count(std::uint64_t client, Kind kind) const;
  /// The number of all subscriptions of the client.
  std::size_t count(std::uint64_t client) const {
    return clients_.empty() ? 0 : count(client, Kind::channel) + count(client, Kind::pattern);
  }

  /// About how much memory the subscriptions of the client need.
  std::size_t bytes_of(std::uint64_t client) const;
  static std::size_t bytes_of_name(std::string_view name) { return kSubscriptionBytes + 2 * name.size(); }

  /// The number of clients with subscriptions.
  std::size_t clients() const { return clients_.size(); }

  /// Returns the number of receivers. They get the message through take_publications().
  std::size_t publish(std::string_view channel, std::string_view message) override;
  bool has_publications() const { return !publications_.empty(); }
  /// The result is valid until the next change of subscriptions.
  std::vector<Publication> take_publications() { return std::exchange(publications_, {}); }

  /// The channels with subscribers that match the pattern.
  std::vector<std::string> channels(std::string_view pattern) const;
  std::size_t subscribers(std::string_view channel) const;
  std::size_t patterns() const { return names_[static_cast<std::size_t>(Kind::pattern)].size(); }

 private:
  using Subscribers = std::map<std::string, std::set<std::uint64_t>, std::less<>>;
  struct Subscriptions {
    std::array<std::set<std::string, std::less<>>, 2> names;  // by kind
    std::size_t bytes = 0;
  };

  std::array<Subscribers, 2> names_;  // by kind
  std::unordered_map<std::uint64_t, Subscriptions> clients_;
  std::vector<Publication> publications_;
};

}  // namespace rdmc::kv

// This object knows which clients watch which keys (WATCH), and which of these keys have changed. It is a
// part of the replicated state, because all replicas must agree whether a transaction takes place. One thread
// uses it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dataplane/base/varint.hpp"

namespace rdmc::kv {

/// A client of the service: the server that it is connected to, and its number there.
struct ClientId {
  std::uint64_t server = 0, number = 0;
  friend auto operator<=>(const ClientId&, const ClientId&) = default;
};

class Watches {
 public:
  static constexpr std::uint32_t kMostDatabase = 15;  ///< the largest number of a database
  /// The keys of one client may need about this memory. A key needs that of its name twice, and
  /// kWatchedKeyBytes.
  static constexpr std::size_t kMostClientBytes = 4 << 20, kWatchedKeyBytes = 300;

  struct Key {
    std::uint32_t database;
    std::string name;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  void watch(const ClientId& client, std::uint32_t database, std::string_view key);
  /// Forgets what the client watches.
  void unwatch(const ClientId& client);
  /// Forgets all clients of a server.
  void forget_server(std::uint64_t server);
  /// The keys that the client watches.
  const std::set<Key>& keys_of(const ClientId& client) const;
  bool has_changed(const ClientId& client) const;
  /// About how much memory the client's keys need. It follows from the keys alone, so all replicas agree.
  std::size_t bytes_of(const ClientId& client) const;
  static std::size_t bytes_of_key(std::string_view key) { return kWatchedKeyBytes + 2 * key.size(); }

  bool is_empty() const { return clients_.empty(); }
  /// Says that a key has changed.
  void changed(std::uint32_t database, std::string_view key);
  /// Returns the watched keys of a database.
  std::vector<std::string> keys_in(std::uint32_t database) const;
  /// The servers that have clients here.
  std::set<std::uint64_t> servers() const;

  void save(std::vector<std::byte>& out) const;
  void load(VarintReader& in);

 private:
  struct Client {
    std::set<Key> keys;
    std::size_t bytes = 0;
    bool has_changed = false;
  };
  std::map<ClientId, Client> clients_;
  std::map<Key, std::set<ClientId>> watchers_;
};

}  // namespace rdmc::kv

// The clients whose commands wait until a key gets elements (BLPOP and its relatives), in the order in which
// they came. It is a part of the replicated state, because all replicas must agree who gets an element. One
// thread uses it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/replicated-kv/data/watches.hpp"
#include "dataplane/base/varint.hpp"

namespace rdmc::kv {

/// A command that waits.
struct Waiter {
  ClientId client;
  std::uint64_t user = 0;  ///< the number of its user (access/users.hpp), or 0
  std::uint32_t database = 0;
  bool is_resp3 = false;
  std::vector<std::string> words;  ///< of the command
  std::vector<std::string> keys;   ///< that it waits for

  /// A command may need about this memory while it waits.
  static constexpr std::size_t kMostBytes = 4 << 20;
  /// About the memory for these words and keys. It follows from them alone, so all replicas agree.
  static std::size_t bytes_of(std::span<const std::string_view> words,
                              std::span<const std::string_view> keys);
};

class Waiters {
 public:
  using Key = Watches::Key;

  /// Takes the place of an earlier command of the client, for whose reply nobody waits any more.
  void add(Waiter waiter);
  /// Returns false if the client does not wait.
  bool forget(const ClientId& client);
  /// Forgets all clients of a server.
  void forget_server(std::uint64_t server);
  /// The servers that have clients here.
  std::set<std::uint64_t> servers() const;
  bool is_empty() const { return waiters_.empty(); }

  /// Says that a key has changed. It becomes ready if somebody waits for it.
  void changed(std::uint32_t database, std::string_view key);
  /// Says that every key of a database may have changed.
  void all_changed(std::uint32_t database);
  /// Removes the key that has been ready for the longest time.
  std::optional<Key> take_ready();
  /// The numbers of the waiters for a key, in their order.
  std::vector<std::uint64_t> waiting_for(const Key& key) const;
  /// Returns null if nobody has this number any more.
  const Waiter* find(std::uint64_t number) const;

  // No key may be ready.
  void save(std::vector<std::byte>& out) const;
  void load(VarintReader& in);

 private:
  std::map<std::uint64_t, Waiter> waiters_;  // by number
  std::map<ClientId, std::uint64_t> clients_;
  std::map<Key, std::set<std::uint64_t>> keys_;
  std::deque<Key> ready_;
  std::uint64_t next_ = 0;
};

}  // namespace rdmc::kv

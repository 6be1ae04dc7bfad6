// Everything that the replicas of a service keep alike: the numbered databases, what clients watch, and what
// they wait for. All changes of keys go through this class, so that WATCH sees each of them. One thread uses
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "apps/replicated-kv/data/database.hpp"
#include "apps/replicated-kv/data/memory_limit.hpp"
#include "apps/replicated-kv/data/waiters.hpp"
#include "apps/replicated-kv/data/watches.hpp"

namespace rdmc::kv {

class Databases {
 public:
  static constexpr std::uint32_t kCount = 16;

  /// `seed` is for hash tables. It may differ between replicas.
  explicit Databases(std::uint64_t seed);

  Database& at(std::uint32_t number) { return databases_[number]; }
  SmallMemory& memory() { return shared_->memory; }
  Shared& shared() { return *shared_; }
  Watches& watches() { return watches_; }
  Waiters& waiters() { return waiters_; }
  /// The number of changes of keys so far.
  std::uint64_t changes() const { return changes_; }

  /// Must be called after each change of a key.
  void changed(std::uint32_t number, std::string_view key) {
    ++changes_;
    if (!watches_.is_empty()) watches_.changed(number, key);
    if (!waiters_.is_empty()) waiters_.changed(number, key);
  }
  void erase(std::uint32_t number, Database::Entry& entry);
  /// Removes the key if its deadline has come.
  void erase_if_expired(std::uint32_t number, std::string_view key, Milliseconds now);
  void clear(std::uint32_t number);
  void clear();
  /// Exchanges the contents of two databases.
  void swap(std::uint32_t a, std::uint32_t b);
  /// Removes keys whose deadline has come, the earliest deadline first, and at most `most` of them. Returns
  /// the number.
  std::size_t expire(Milliseconds now, std::size_t most);
  /// The earliest deadline of all keys.
  std::optional<Milliseconds> earliest_deadline() const;
  /// The keys that expire() has removed so far.
  std::uint64_t expired() const { return expired_; }

  // The limit of memory, which all replicas keep alike.
  const MemoryLimit& limit() const { return limit_; }
  void set_limit(const MemoryLimit& limit);
  std::size_t keys() const;
  /// The number of keys that the policy permits to evict.
  std::size_t evictable() const;
  bool is_over_limit() const { return limit_.most != 0 && shared_->memory.used() > limit_.most; }
  /// True if commands that need memory must be refused.
  bool is_out_of_memory() const { return is_over_limit() && evictable() == 0; }
  /// Removes the key, if it exists, to save memory.
  void evict(std::uint32_t number, std::string_view key);
  /// The keys that evict() has removed so far.
  std::uint64_t evicted() const { return evicted_; }

  // Each replica counts the uses for itself.
  void use(Database::Entry& entry) {
    entry.value.usage = shared_->usage.used(entry.value.usage) & UsageClock::kMask;
  }
  std::uint64_t hits = 0, misses = 0;  ///< of reads of clients of this server

  /// Writes everything, in pieces. `head` is what the application adds. The usage of keys, which replicas do
  /// not keep alike, is written only if it is asked for.
  void save(std::vector<std::byte> head, const std::function<void(std::vector<std::byte>)>& write,
            bool with_usage = false) const;

 private:
  friend class Loader;
  std::unique_ptr<Shared> shared_ = std::make_unique<Shared>();
  std::vector<Database> databases_;
  Watches watches_;
  Waiters waiters_;
  MemoryLimit limit_;
  std::uint64_t changes_ = 0, expired_ = 0, evicted_ = 0;
};

/// Makes empty databases equal to saved ones, from the bytes that save() has written, in pieces of any size.
class Loader {
 public:
  explicit Loader(Databases& databases) : databases_(databases) {}
  /// Returns false if the bytes are wrong. The databases have a part of the state then.
  bool add(std::span<const std::byte> bytes);
  /// True if the bytes so far are a complete state.
  bool is_complete() const { return is_complete_ && waiting_.empty(); }
  /// Returns the head that was given to save().
  std::span<const std::byte> head() const { return head_; }

 private:
  bool load_piece(std::span<const std::byte> piece);
  bool load_key(VarintReader& in, std::uint32_t number);
  bool load_usage(VarintReader& in, std::uint32_t number);

  Databases& databases_;
  std::vector<std::byte> waiting_, head_;
  bool is_complete_ = false;
};

/// Appends the value of a key.
void save_value(const Item& item, std::vector<std::byte>& out);
/// Reads what save_value() has written. Returns false if it is wrong.
bool load_value(VarintReader& in, Shared& shared, Item& item);

}  // namespace rdmc::kv

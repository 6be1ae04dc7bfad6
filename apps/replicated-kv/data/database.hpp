// The keys of one numbered database, with their values and deadlines. A key whose deadline has come is
// missing for every function that takes the time, whether it was removed already or not. All functions follow
// only from earlier calls and their arguments, so replicas that make the same calls have the same content.
// One thread uses it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "apps/replicated-kv/data/collection.hpp"
#include "apps/replicated-kv/data/dictionary.hpp"
#include "apps/replicated-kv/data/text.hpp"

namespace rdmc::kv {

/// Milliseconds since 1970.
using Milliseconds = std::int64_t;

/// The value of a key.
struct Item {
  std::variant<Text, std::unique_ptr<Collection>> value;
  std::uint32_t expiry = UINT32_MAX;  ///< for Database
  std::uint32_t usage : UsageClock::kBits = 0;
  /// A string that was changed in place. OBJECT ENCODING says "raw" for it.
  std::uint32_t has_grown : 1 = 0;

  Type type() const;
  /// The string, or null if it is something else.
  Text* text() { return std::get_if<Text>(&value); }
  /// The collection, or null if it is a string.
  Collection* collection() {
    auto* const held = std::get_if<std::unique_ptr<Collection>>(&value);
    return held == nullptr ? nullptr : held->get();
  }
};

class Database {
 public:
  using Entry = Dictionary<Item>::Entry;

  Database(SmallMemory& memory, std::uint64_t seed) : memory_(&memory), entries_(memory, seed) {}
  Database(Database&&) = default;

  SmallMemory& memory() const { return *memory_; }
  /// The number of keys. Some may have expired.
  std::size_t size() const { return entries_.size(); }
  /// The key at a position, for scans and random choices. It may have expired.
  Entry& at(std::size_t position) { return entries_.at(position); }
  const Entry& at(std::size_t position) const { return entries_.at(position); }

  /// Returns the key, or null if it is missing. Changes nothing.
  Entry* find(std::string_view key, Milliseconds now) const;
  /// Returns the key, which is new, with an empty string, if it was missing.
  Entry& get_or_insert(std::string_view key, Milliseconds now);
  void erase(Entry& entry);
  /// Removes everything.
  void clear();

  /// The time at which the key expires, or nullopt.
  std::optional<Milliseconds> deadline(const Entry& entry) const;
  void set_deadline(Entry& entry, Milliseconds deadline);
  /// Returns false if the key had no deadline.
  bool remove_deadline(Entry& entry);
  std::size_t keys_with_deadline() const { return expiring_.size(); }
  /// A key with a deadline. `index` is below keys_with_deadline().
  const Entry& with_deadline_at(std::size_t index) const { return *expiring_[index].entry; }
  /// The keys with the earliest deadlines, the earliest one first, and at most `count` of them.
  std::vector<const Entry*> earliest(std::size_t count) const;
  /// The earliest deadline of all keys.
  std::optional<Milliseconds> earliest_deadline() const;
  /// Returns the key with the earliest deadline if that has come, and otherwise null.
  Entry* expired(Milliseconds now) const;

  // For saved states: the deadline of a key with its serial number, which orders equal deadlines, and the
  // next serial number.
  std::optional<std::pair<Milliseconds, std::uint64_t>> saved_deadline(const Entry& entry) const;
  void restore_deadline(Entry& entry, Milliseconds deadline, std::uint64_t serial);
  std::uint64_t next_serial() const { return next_serial_; }
  void set_next_serial(std::uint64_t serial) { next_serial_ = serial; }

 private:
  struct Expiring {
    Milliseconds deadline;
    std::uint64_t serial;  // orders equal deadlines
    Entry* entry;
    friend bool operator<(const Expiring& a, const Expiring& b) {
      return a.deadline != b.deadline ? a.deadline < b.deadline : a.serial < b.serial;
    }
  };
  bool has_expired(const Entry& entry, Milliseconds now) const;
  void put(std::size_t index, const Expiring& expiring);
  void lift(std::size_t index);
  void sink(std::size_t index);

  SmallMemory* memory_;
  Dictionary<Item> entries_;
  std::vector<Expiring> expiring_;  // a binary heap
  std::uint64_t next_serial_ = 0;
};

}  // namespace rdmc::kv

// A hash table from strings of bytes to values. Its entries also have positions from 0 to size() - 1. A new
// entry gets the last position. When an entry is erased, the last entry takes its position. So the positions
// follow only from the sequence of insertions and erasures, not from hash values: replicas that do the same
// agree on them. Random choices use them, and so do scans: a scan that goes from the last position to the
// first one sees each entry that exists all the time, because erasures move only entries that the scan has
// seen.
//
// Growing takes no long pause: each insertion moves a few entries to the larger table. One thread uses it.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include <xxhash.h>

#include "apps/replicated-kv/data/small_memory.hpp"

namespace rdmc::kv {

template <typename Value>
class Dictionary {
 public:
  class Entry {
   public:
    std::string_view key() const { return {reinterpret_cast<const char*>(this + 1), size_}; }
    std::uint32_t position() const { return position_; }
    [[no_unique_address]] Value value{};

   private:
    friend class Dictionary;
    Entry* next_ = nullptr;
    std::uint32_t hash_ = 0, position_ = 0, size_ = 0;
  };

  /// An entry needs these bytes beside its key and what its value owns. Its places in the table and among the
  /// positions are counted, too.
  static constexpr std::size_t kEntryBytes = sizeof(Entry) + 2 * sizeof(void*);

  /// `seed` should be random, so that nobody can choose keys with equal hash values.
  Dictionary(SmallMemory& memory, std::uint64_t seed) : memory_(&memory), seed_(seed) {}
  ~Dictionary() { clear(); }
  Dictionary(Dictionary&& other) noexcept
      : memory_(other.memory_),
        seed_(other.seed_),
        entries_(std::exchange(other.entries_, {})),
        table_(std::move(other.table_)),
        old_(std::move(other.old_)),
        moved_(other.moved_) {}
  Dictionary& operator=(Dictionary&&) = delete;

  std::size_t size() const { return entries_.size(); }
  Entry& at(std::size_t position) { return *entries_[position]; }
  const Entry& at(std::size_t position) const { return *entries_[position]; }

  Entry* find(std::string_view key) const {
    if (entries_.empty()) return nullptr;
    const std::uint32_t hash = hash_of(key);
    if (Entry* const found = find_in(table_, key, hash)) return found;
    return old_.slots ? find_in(old_, key, hash) : nullptr;
  }

  /// Returns the entry with this key, and true if it is new.
  std::pair<Entry*, bool> insert(std::string_view key) {
    if (Entry* const found = find(key)) return {found, false};
    move_some();
    if (entries_.size() >= table_.size()) grow();
    Entry* const entry = new (memory_->allocate(sizeof(Entry) + key.size())) Entry();
    memory_->add(kEntryBytes + key.size());
    entry->size_ = static_cast<std::uint32_t>(key.size());
    if (!key.empty()) std::memcpy(static_cast<void*>(entry + 1), key.data(), key.size());
    entry->hash_ = hash_of(key);
    entry->position_ = static_cast<std::uint32_t>(entries_.size());
    link(*entry);
    entries_.push_back(entry);
    return {entry, true};
  }

  void erase(Entry& entry) {
    move_some();
    unlink(entry);
    Entry* const last = entries_.back();
    entries_[entry.position_] = last;
    last->position_ = entry.position_;
    entries_.pop_back();
    destroy(entry);
  }

  void clear() {
    for (Entry* const entry : entries_) destroy(*entry);
    entries_.clear();
    table_ = {};
    old_ = {};
  }

 private:
  struct Table {
    std::unique_ptr<Entry*[]> slots;
    unsigned bits = 0;
    std::size_t size() const { return slots ? std::size_t{1} << bits : 0; }
    Entry*& slot(std::uint32_t hash) const { return slots[hash & (size() - 1)]; }
  };
  static constexpr unsigned kFirstBits = 2, kMostBits = 32;
  /// Slots of the old table that one change moves. More than one: the old table is empty before the new one
  /// is full.
  static constexpr std::size_t kMovedSlots = 4;

  std::uint32_t hash_of(std::string_view key) const {
    return static_cast<std::uint32_t>(XXH3_64bits_withSeed(key.data(), key.size(), seed_));
  }

  static Entry* find_in(const Table& table, std::string_view key, std::uint32_t hash) {
    for (Entry* entry = table.slot(hash); entry != nullptr; entry = entry->next_)
      if (entry->hash_ == hash && entry->key() == key) return entry;
    return nullptr;
  }

  void link(Entry& entry) { entry.next_ = std::exchange(table_.slot(entry.hash_), &entry); }

  void unlink(Entry& entry) {
    for (const Table* const table : {&table_, &old_}) {
      if (!table->slots) continue;
      for (Entry** at = &table->slot(entry.hash_); *at != nullptr; at = &(*at)->next_)
        if (*at == &entry) {
          *at = entry.next_;
          return;
        }
    }
  }

  void grow() {
    while (old_.slots) move_some();
    if (table_.slots && table_.bits == kMostBits) return;
    const unsigned bits = table_.slots ? table_.bits + 1 : kFirstBits;
    old_ = std::move(table_);
    table_ = {std::make_unique<Entry*[]>(std::size_t{1} << bits), bits};
    moved_ = 0;
    if (old_.size() == 0) old_ = {};
  }

  void move_some() {
    if (!old_.slots) return;
    for (std::size_t i = 0; i < kMovedSlots && moved_ < old_.size(); ++i)
      for (Entry* entry = std::exchange(old_.slots[moved_++], nullptr); entry != nullptr;)
        link(*std::exchange(entry, entry->next_));
    if (moved_ == old_.size()) old_ = {};
  }

  void destroy(Entry& entry) {
    const std::size_t key_bytes = entry.size_;
    entry.~Entry();
    memory_->subtract(kEntryBytes + key_bytes);
    memory_->free(&entry, sizeof(Entry) + key_bytes);
  }

  SmallMemory* memory_;
  std::uint64_t seed_;
  std::deque<Entry*> entries_;  // by position
  Table table_, old_;           // old_ is empty unless entries move to table_
  std::size_t moved_ = 0;       // the number of slots of old_ that have moved
};

}  // namespace rdmc::kv

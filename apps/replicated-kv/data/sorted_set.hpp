// A sorted set: members with scores, ordered by score, and by member where scores are equal. A small one is
// one block of packed strings in this order. A large one is a dictionary and a tree, and never becomes small
// again. One thread uses it.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "apps/replicated-kv/data/collection.hpp"
#include "apps/replicated-kv/data/dictionary.hpp"
#include "apps/replicated-kv/data/packed.hpp"
#include "apps/replicated-kv/data/ranked_tree.hpp"
#include "dataplane/base/varint.hpp"

namespace rdmc::kv {

class SortedSet final : public Collection {
 public:
  static constexpr Type kType = Type::sorted_set;
  /// A sorted set with more members, or with a longer member, is a dictionary and a tree.
  static constexpr std::size_t kMostPacked = 128, kMostPackedBytes = 64;

  struct Member {
    double score;
    std::string_view name;
  };

  explicit SortedSet(Shared& shared) : Collection(shared) {}
  ~SortedSet() override { packed_.clear(memory()); }

  Type type() const override { return kType; }
  std::size_t size() const override { return large_ ? large_->members.size() : packed_.count(); }
  std::string_view encoding() const override { return is_large_ ? "skiplist" : "listpack"; }
  std::unique_ptr<Collection> copy() const override;
  void save(std::vector<std::byte>& out) const override;
  /// Reads what save() has written into an empty sorted set. Returns false if it is wrong.
  bool load(VarintReader& in);

  std::optional<double> score(std::string_view name) const;
  /// Returns true if the member is new. `name` must not be a part of the sorted set, also below. The score
  /// must not be NaN.
  bool set(std::string_view name, double score);
  /// Returns false if there is no such member.
  bool erase(std::string_view name);
  std::optional<std::size_t> rank(std::string_view name) const;
  /// The member at a rank below size(). It is valid until the next change.
  Member at(std::size_t rank) const;
  /// The number of members before the first one for which `is_before(Member)` is false. It must be true for
  /// all members before that one.
  template <typename IsBefore>
  std::size_t count_before(const IsBefore& is_before) const {
    if (large_) return large_->order.count_before([&](const Key& key) { return is_before(member_of(key)); });
    std::size_t count = 0;
    for (std::size_t at = 0; at < packed_.end() && is_before(unpack(packed_.at(at))); at = packed_.next(at))
      ++count;
    return count;
  }
  /// Calls `visitor(Member)` for `count` members: from `rank` on forwards, or backwards from there.
  template <typename Visitor>
  void visit(std::size_t rank, std::size_t count, bool is_reversed, const Visitor& visitor) const {
    if (count == 0) return;
    if (large_)
      return large_->order.visit(rank, count, is_reversed, [&](const Key& key) { visitor(member_of(key)); });
    for (std::size_t at = packed_.offset_of(rank);;) {
      visitor(unpack(packed_.at(at)));
      if (--count == 0) return;
      at = is_reversed ? packed_.previous(at) : packed_.next(at);
    }
  }
  /// False if the sorted set is small, so that scans give all members at once.
  bool has_positions() const { return large_ != nullptr; }
  /// The member at a position below size(). Positions are not ranks: see Dictionary. has_positions() must be
  /// true.
  Member at_position(std::size_t position) const {
    const auto& entry = large_->members.at(position);
    return {entry.value, entry.key()};
  }

 private:
  using Entry = Dictionary<double>::Entry;
  struct Key {
    double score;
    const Entry* entry;
  };
  static Member member_of(const Key& key) { return {key.score, key.entry->key()}; }
  struct Less {
    bool operator()(const Key& a, const Key& b) const {
      return a.score != b.score ? a.score < b.score : a.entry->key() < b.entry->key();
    }
  };
  struct Large {
    Large(SmallMemory& memory, std::uint64_t seed) : members(memory, seed), order(memory) {}
    Dictionary<double> members;
    RankedTree<Key, Less> order;
  };

  /// An element of packed_ is the score, and the name after it.
  static Member unpack(std::string_view element) {
    Member member{0, element.substr(sizeof(double))};
    std::memcpy(&member.score, element.data(), sizeof(double));
    return member;
  }
  static bool is_before(const Member& a, const Member& b) {
    return a.score != b.score ? a.score < b.score : a.name < b.name;
  }
  std::size_t offset_of(std::string_view name) const;
  void insert_packed(std::string_view name, double score);
  void grow();

  Packed packed_;
  std::unique_ptr<Large> large_;
  bool is_large_ = false;  // for encoding()
};

}  // namespace rdmc::kv

// The commands of collections share these functions: finding a collection, random choices, and scans.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/commands/command.hpp"

namespace rdmc::kv {

/// Finds a collection of this kind. Returns false, after the error reply, if the key is something else.
/// `found` is null if the key is missing.
template <typename Kind>
bool find_collection(Call& call, std::string_view key, Kind*& found) {
  Database::Entry* const entry = call.find(key);
  found = nullptr;
  if (entry == nullptr) return true;
  if (entry->value.type() != Kind::kType) {
    call.reply.error(kWrongType);
    return false;
  }
  found = static_cast<Kind*>(entry->value.collection());
  return true;
}

/// Returns the collection, which is new if the key was missing. Something must be inserted then. The key must
/// not be something else.
template <typename Kind>
Kind& get_or_create(Call& call, std::string_view key) {
  Item& item = call.get_or_insert(key).value;
  if (item.collection() == nullptr) {
    item.value = std::make_unique<Kind>(call.databases.shared());
    item.has_grown = false;
  }
  return static_cast<Kind&>(*item.collection());
}

/// Says that a collection has changed. The key is removed if the collection is empty.
void finish_change(Call& call, std::string_view key);

/// Gives the key this collection. A key without elements is missing.
void store(Call& call, std::string_view key, std::unique_ptr<Collection> collection);

inline void reply_count(Call& call, std::size_t count) {
  call.reply.integer(static_cast<std::int64_t>(count));
}

/// A part of a sequence.
struct Slice {
  std::size_t first = 0, count = 0;
};
/// The elements from `first` to `last` of a sequence with `size` elements. Negative numbers count from the
/// end.
Slice slice_of(std::int64_t first, std::int64_t last, std::size_t size);

/// Random numbers that follow from the one of a call (SplitMix64).
class RandomNumbers {
 public:
  explicit RandomNumbers(std::uint64_t state) : state_(state) {}
  std::uint64_t next();
  /// A number below `bound`, which is not 0.
  std::size_t below(std::size_t bound) { return next() % bound; }

 private:
  std::uint64_t state_;
};

/// Chooses `count` different numbers below `bound`, which is not below `count` (Floyd, Communications of the
/// ACM 30(9), 1987).
std::vector<std::size_t> choose(RandomNumbers& random, std::size_t count, std::size_t bound);

/// Reads the count of commands such as HRANDFIELD and SRANDMEMBER, or replies with an error.
std::optional<std::int64_t> random_count(Call& call, std::string_view word);

/// The options of SCAN and its relatives.
struct ScanOptions {
  std::size_t cursor = 0;
  std::size_t count = 10;
  std::string_view pattern = "*";
  std::string type;  ///< for SCAN

  bool matches(std::string_view text) const { return pattern == "*" || kv::matches(pattern, text); }
};
void reply_scan(Call& call, std::size_t cursor, const std::vector<std::string>& found);
/// Reads a cursor, or replies with an error.
std::optional<std::size_t> scan_cursor(Call& call, std::string_view word);
/// Reads the options after the cursor, which is the word `at`.
std::optional<ScanOptions> scan_options(Call& call, std::size_t at, std::size_t cursor,
                                        bool has_type = false);
/// Reads the words of HSCAN and its relatives, and finds the collection. Returns nullopt after a reply: an
/// error, or that of a missing key.
template <typename Kind>
std::optional<ScanOptions> begin_scan(Call& call, Kind*& found) {
  const auto cursor = scan_cursor(call, call.words[2]);
  if (!cursor || !find_collection(call, call.words[1], found)) return std::nullopt;
  if (found != nullptr) return scan_options(call, 2, *cursor);
  reply_scan(call, 0, {});
  return std::nullopt;
}

/// Collects what a scan finds among `size` elements. The cursor is the number of elements that have not been
/// seen yet, and 0 at the beginning and at the end: see Dictionary for why no element is missed.
/// `add(position)` is called for each element that is seen. Returns the next cursor.
template <typename Add>
std::size_t scan_positions(const ScanOptions& options, std::size_t size, const Add& add) {
  std::size_t rest = options.cursor == 0 ? size : std::min(options.cursor, size);
  for (std::size_t count = options.count; rest > 0 && count > 0; --count) add(--rest);
  return rest;
}

/// The keys of commands such as "ZUNION 2 a b".
struct NumberedKeys {
  Arguments keys;
  std::size_t next;  ///< the word after them
};
/// Reads the number of keys at the word `at`, and the keys. Replies with an error if they are wrong.
std::optional<NumberedKeys> numbered_keys(Call& call, std::size_t at, std::string_view too_many = kSyntax);

/// Reads "COUNT number" at the word `at`, which may be missing, as in LMPOP.
std::optional<std::size_t> pop_count(Call& call, std::size_t at);

}  // namespace rdmc::kv

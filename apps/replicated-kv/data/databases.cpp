#include "apps/replicated-kv/data/databases.hpp"

#include <algorithm>

#include "apps/replicated-kv/data/hash.hpp"
#include "apps/replicated-kv/data/list.hpp"
#include "apps/replicated-kv/data/saved.hpp"
#include "apps/replicated-kv/data/set.hpp"
#include "apps/replicated-kv/data/sorted_set.hpp"

namespace rdmc::kv {

namespace {

/// A piece of a saved state begins with its length in kLengthBytes bytes, the lowest first. It has about this
/// size.
constexpr std::size_t kPieceBytes = 256 << 10, kLengthBytes = 8;
/// The kinds of records of a piece.
enum class Record : std::uint8_t {
  key = 0,
  serial = 1,
  watches = 2,
  head = 3,
  end = 4,
  waiters = 5,
  limit = 6,
  usage = 7
};
/// A record of usages is for this number of keys.
constexpr std::size_t kUsages = 4096;

}  // namespace

Databases::Databases(std::uint64_t seed) {
  shared_->seed = seed;
  databases_.reserve(kCount);
  for (std::uint32_t i = 0; i < kCount; ++i) databases_.emplace_back(shared_->memory, seed + i);
}

void Databases::erase(std::uint32_t number, Database::Entry& entry) {
  changed(number, entry.key());
  databases_[number].erase(entry);
}

void Databases::erase_if_expired(std::uint32_t number, std::string_view key, Milliseconds now) {
  Database& database = databases_[number];
  Database::Entry* const entry = database.find(key, INT64_MIN);
  if (entry != nullptr && database.find(key, now) == nullptr) erase(number, *entry);
}

void Databases::clear(std::uint32_t number) {
  Database& database = databases_[number];
  for (const std::string& key : watches_.keys_in(number))
    if (database.find(key, INT64_MIN) != nullptr) watches_.changed(number, key);
  changes_ += database.size();
  database.clear();
}

void Databases::clear() {
  for (std::uint32_t i = 0; i < kCount; ++i) clear(i);
}

void Databases::swap(std::uint32_t a, std::uint32_t b) {
  if (a == b) return;
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)})
    for (const std::string& key : watches_.keys_in(from))
      if (databases_[from].find(key, INT64_MIN) != nullptr || databases_[to].find(key, INT64_MIN) != nullptr)
        watches_.changed(from, key);
  Database other(std::move(databases_[a]));
  std::destroy_at(&databases_[a]);
  std::construct_at(&databases_[a], std::move(databases_[b]));
  std::destroy_at(&databases_[b]);
  std::construct_at(&databases_[b], std::move(other));
  for (const std::uint32_t number : {a, b}) waiters_.all_changed(number);
  ++changes_;
}

std::optional<Milliseconds> Databases::earliest_deadline() const {
  std::optional<Milliseconds> earliest;
  for (const Database& database : databases_)
    if (const auto deadline = database.earliest_deadline(); deadline && (!earliest || *deadline < *earliest))
      earliest = deadline;
  return earliest;
}

std::size_t Databases::expire(Milliseconds now, std::size_t most) {
  std::size_t removed = 0;
  for (std::uint32_t i = 0; i < kCount; ++i)
    for (; removed < most; ++removed) {
      Database::Entry* const entry = databases_[i].expired(now);
      if (entry == nullptr) break;
      erase(i, *entry);
    }
  expired_ += removed;
  return removed;
}

// -- Memory --

void Databases::set_limit(const MemoryLimit& limit) {
  limit_ = limit;
  shared_->usage.counts_uses = limit.policy == MemoryLimit::Policy::least_frequent;
}

std::size_t Databases::keys() const {
  std::size_t count = 0;
  for (const Database& database : databases_) count += database.size();
  return count;
}

std::size_t Databases::evictable() const {
  if (limit_.policy == MemoryLimit::Policy::none) return 0;
  if (!limit_.only_with_deadline) return keys();
  std::size_t count = 0;
  for (const Database& database : databases_) count += database.keys_with_deadline();
  return count;
}

void Databases::evict(std::uint32_t number, std::string_view key) {
  Database::Entry* const entry = databases_[number].find(key, INT64_MIN);
  if (entry == nullptr) return;
  erase(number, *entry);
  ++evicted_;
}

// -- Saved states --

void save_value(const Item& item, std::vector<std::byte>& out) {
  put_varint(out, static_cast<std::uint8_t>(item.type()));
  if (const auto* const text = std::get_if<Text>(&item.value)) {
    put_varint(out, item.has_grown);
    put_bytes(out, *text);
  } else {
    std::get<std::unique_ptr<Collection>>(item.value)->save(out);
  }
}

template <typename Kind>
bool load_collection(VarintReader& in, Shared& shared, Item& item) {
  auto loaded = std::make_unique<Kind>(shared);
  const bool is_good = loaded->load(in) && in.is_good() && loaded->size() > 0;
  item.value = std::move(loaded);
  return is_good;
}

bool load_value(VarintReader& in, Shared& shared, Item& item) {
  const auto type = in.number<Type>(static_cast<std::uint64_t>(Type::sorted_set));
  if (!in.is_good()) return false;
  switch (type) {
    case Type::string: break;
    case Type::list: return load_collection<List>(in, shared, item);
    case Type::hash: return load_collection<Hash>(in, shared, item);
    case Type::set: return load_collection<Set>(in, shared, item);
    case Type::sorted_set: return load_collection<SortedSet>(in, shared, item);
  }
  item.has_grown = in.number(1) != 0;
  item.value.emplace<Text>(shared.memory, take_text(in));
  return in.is_good();
}

void Databases::save(std::vector<std::byte> head, const std::function<void(std::vector<std::byte>)>& write,
                     bool with_usage) const {
  std::vector<std::byte> piece(kLengthBytes);
  put_varint(piece, static_cast<std::uint8_t>(Record::head));
  put_bytes(piece, {reinterpret_cast<const char*>(head.data()), head.size()});
  put_varint(piece, static_cast<std::uint8_t>(Record::limit));
  put_varint(piece, limit_.most);
  put_varint(piece, static_cast<std::uint8_t>(limit_.policy));
  put_varint(piece, limit_.only_with_deadline);
  put_varint(piece, limit_.is_set);
  const auto flush = [&](bool is_end) {
    if (!is_end && piece.size() < kPieceBytes) return;
    const std::uint64_t length = piece.size() - kLengthBytes;
    for (std::size_t i = 0; i < kLengthBytes; ++i) piece[i] = static_cast<std::byte>(length >> (8 * i));
    write(std::exchange(piece, std::vector<std::byte>(kLengthBytes)));
  };
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const Database& database = databases_[i];
    for (std::size_t position = 0; position < database.size(); ++position) {
      const Database::Entry& entry = database.at(position);
      put_varint(piece, static_cast<std::uint8_t>(Record::key));
      put_varint(piece, i);
      put_bytes(piece, entry.key());
      const auto expiry = database.saved_deadline(entry);
      put_varint(piece, expiry.has_value());
      if (expiry) {
        put_varint(piece, expiry->first);
        put_varint(piece, expiry->second);
      }
      save_value(entry.value, piece);
      flush(false);
    }
    for (std::size_t first = 0; with_usage && first < database.size(); first += kUsages) {
      put_varint(piece, static_cast<std::uint8_t>(Record::usage));
      put_varint(piece, i);
      put_varint(piece, first);
      const std::size_t count = std::min(kUsages, database.size() - first);
      put_varint(piece, count);
      for (std::size_t position = first; position < first + count; ++position)
        put_varint(piece, database.at(position).value.usage);
      flush(false);
    }
    put_varint(piece, static_cast<std::uint8_t>(Record::serial));
    put_varint(piece, i);
    put_varint(piece, database.next_serial());
  }
  put_varint(piece, static_cast<std::uint8_t>(Record::watches));
  watches_.save(piece);
  put_varint(piece, static_cast<std::uint8_t>(Record::waiters));
  waiters_.save(piece);
  put_varint(piece, static_cast<std::uint8_t>(Record::end));
  flush(true);
}

bool Loader::add(std::span<const std::byte> bytes) {
  waiting_.insert(waiting_.end(), bytes.begin(), bytes.end());
  std::span<const std::byte> rest = waiting_;
  while (rest.size() >= kLengthBytes) {
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < kLengthBytes; ++i)
      length |= std::to_integer<std::uint64_t>(rest[i]) << (8 * i);
    if (rest.size() - kLengthBytes < length) break;
    if (!load_piece(rest.subspan(kLengthBytes, length))) return false;
    rest = rest.subspan(kLengthBytes + length);
  }
  waiting_.erase(waiting_.begin(), waiting_.end() - static_cast<std::ptrdiff_t>(rest.size()));
  return true;
}

bool Loader::load_piece(std::span<const std::byte> piece) {
  VarintReader in(piece);
  while (!in.is_done()) {
    if (is_complete_) return false;
    switch (in.number<Record>(static_cast<std::uint64_t>(Record::usage))) {
      case Record::key: {
        const auto number = in.number<std::uint32_t>(Databases::kCount - 1);
        if (!load_key(in, number)) return false;
        break;
      }
      case Record::serial: {
        const auto number = in.number<std::uint32_t>(Databases::kCount - 1);
        databases_.databases_[number].set_next_serial(in.number());
        break;
      }
      case Record::watches: databases_.watches_.load(in); break;
      case Record::waiters: databases_.waiters_.load(in); break;
      case Record::head: {
        const auto bytes = in.bytes();
        head_.assign(bytes.begin(), bytes.end());
        break;
      }
      case Record::limit: {
        MemoryLimit limit;
        limit.most = in.number();
        limit.policy =
            in.number<MemoryLimit::Policy>(static_cast<std::uint64_t>(MemoryLimit::Policy::deadline));
        limit.only_with_deadline = in.number(1) != 0;
        limit.is_set = in.number(1) != 0;
        databases_.set_limit(limit);
        break;
      }
      case Record::usage: {
        const auto number = in.number<std::uint32_t>(Databases::kCount - 1);
        if (!load_usage(in, number)) return false;
        break;
      }
      case Record::end: is_complete_ = true; break;
    }
    if (!in.is_good()) return false;
  }
  return true;
}

bool Loader::load_key(VarintReader& in, std::uint32_t number) {
  const std::string_view key = take_text(in);
  const bool expires = in.number(1) != 0;
  const auto deadline = expires ? in.number<Milliseconds>() : 0;
  const auto serial = expires ? in.number() : 0;
  if (!in.is_good()) return false;
  Database& database = databases_.databases_[number];
  Database::Entry& entry = database.get_or_insert(key, INT64_MIN);
  if (expires) database.restore_deadline(entry, deadline, serial);
  return load_value(in, *databases_.shared_, entry.value);
}

/// The usages follow the keys of their positions.
bool Loader::load_usage(VarintReader& in, std::uint32_t number) {
  if (!in.is_good()) return false;
  Database& database = databases_.databases_[number];
  auto position = in.number();
  for (auto count = in.count(); count > 0 && in.is_good(); --count, ++position) {
    const auto usage = in.number<std::uint32_t>(UsageClock::kMask);
    if (position >= database.size()) return false;
    database.at(position).value.usage = usage & UsageClock::kMask;
  }
  return in.is_good();
}

}  // namespace rdmc::kv

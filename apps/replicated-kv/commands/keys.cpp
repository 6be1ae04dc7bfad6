// The commands that work on keys of all types, and on whole databases.
#include <algorithm>
#include <array>

#include "apps/replicated-kv/commands/collections.hpp"

namespace rdmc::kv {

namespace {

void del(Call& call) {
  std::int64_t erased = 0;
  for (const std::string_view key : call.words.subspan(1))
    if (Database::Entry* const entry = call.look_at(key)) {
      call.erase(*entry);
      ++erased;
    }
  call.reply.integer(erased);
}

void exists(Call& call) {
  const auto keys = call.words.subspan(1);
  call.reply.integer(
      std::ranges::count_if(keys, [&](std::string_view key) { return call.look_at(key) != nullptr; }));
}

/// As EXISTS, but the keys are used.
void touch(Call& call) {
  const auto keys = call.words.subspan(1);
  call.reply.integer(
      std::ranges::count_if(keys, [&](std::string_view key) { return call.find(key) != nullptr; }));
}

void type(Call& call) {
  Database::Entry* const entry = call.look_at(call.words[1]);
  call.reply.simple(entry == nullptr ? "none" : name(entry->value.type()));
}

// -- Deadlines --

struct ExpireConditions {
  bool only_without = false, only_with = false, only_later = false, only_earlier = false;
};

std::optional<ExpireConditions> expire_conditions(Call& call) {
  ExpireConditions conditions;
  for (const std::string_view word : call.words.subspan(3)) {
    if (is_word(word, "nx"))
      conditions.only_without = true;
    else if (is_word(word, "xx"))
      conditions.only_with = true;
    else if (is_word(word, "gt"))
      conditions.only_later = true;
    else if (is_word(word, "lt"))
      conditions.only_earlier = true;
    else {
      call.reply.error("ERR Unsupported option " + std::string(word));
      return std::nullopt;
    }
  }
  if (conditions.only_without && (conditions.only_with || conditions.only_later || conditions.only_earlier)) {
    call.reply.error("ERR NX and XX, GT or LT options at the same time are not compatible");
    return std::nullopt;
  }
  if (conditions.only_later && conditions.only_earlier) {
    call.reply.error("ERR GT and LT options at the same time are not compatible");
    return std::nullopt;
  }
  return conditions;
}

template <bool is_seconds, bool is_relative>
void expire(Call& call) {
  const auto conditions = expire_conditions(call);
  if (!conditions) return;
  const auto number = integer(call, call.words[2]);
  if (!number) return;
  const auto deadline = deadline_of(call, *number, {is_seconds, is_relative}, false);
  if (!deadline) return;
  Database::Entry* const entry = call.look_at(call.words[1]);
  if (entry == nullptr) return call.reply.integer(0);
  const auto present = call.db().deadline(*entry);
  // No deadline counts as one that is later than all others.
  if ((conditions->only_without && present) || (conditions->only_with && !present) ||
      (conditions->only_later && (!present || *deadline <= *present)) ||
      (conditions->only_earlier && present && *deadline >= *present))
    return call.reply.integer(0);
  if (*deadline <= call.now) {
    call.erase(*entry);
  } else {
    call.db().set_deadline(*entry, *deadline);
    call.changed(entry->key());
  }
  call.reply.integer(1);
}

template <bool is_seconds, bool is_relative>
void time_to_live(Call& call) {
  Database::Entry* const entry = call.look_at(call.words[1]);
  if (entry == nullptr) return call.reply.integer(-2);
  const auto deadline = call.db().deadline(*entry);
  if (!deadline) return call.reply.integer(-1);
  const Milliseconds time = is_relative ? std::max<Milliseconds>(*deadline - call.now, 0) : *deadline;
  call.reply.integer(is_seconds ? (time + 500) / 1000 : time);
}

void persist(Call& call) {
  Database::Entry* const entry = call.look_at(call.words[1]);
  const bool had_one = entry != nullptr && call.db().remove_deadline(*entry);
  if (had_one) call.changed(entry->key());
  call.reply.integer(had_one ? 1 : 0);
}

// -- Looking through a database --

void keys(Call& call) {
  std::vector<std::string_view> found;
  for (std::size_t i = 0; i < call.db().size(); ++i) {
    const std::string_view key = call.db().at(i).key();
    if ((call.words[1] == "*" || matches(call.words[1], key)) && call.look_at(key) != nullptr)
      found.push_back(key);
  }
  call.reply.array(found.size());
  for (const std::string_view key : found) call.reply.bulk(key);
}

void scan(Call& call) {
  const auto cursor = scan_cursor(call, call.words[1]);
  const auto options = cursor ? scan_options(call, 1, *cursor, true) : std::nullopt;
  if (!options) return;
  std::vector<std::string> found;
  const std::size_t next = scan_positions(*options, call.db().size(), [&](std::size_t position) {
    Database::Entry& entry = call.db().at(position);
    if (!options->matches(entry.key()) || call.look_at(entry.key()) == nullptr) return;
    if (options->type.empty() || name(entry.value.type()) == options->type) found.emplace_back(entry.key());
  });
  reply_scan(call, next, found);
}

void randomkey(Call& call) {
  // Keys that have expired are skipped: from a random position on, the next key that has not.
  const std::size_t size = call.db().size();
  for (std::size_t i = 0; i < size; ++i) {
    const std::string_view key = call.db().at((call.random + i) % size).key();
    if (call.look_at(key) != nullptr) return call.reply.bulk(key);
  }
  call.reply.null();
}

void dbsize(Call& call) {
  call.reply.integer(static_cast<std::int64_t>(call.db().size()));
}

/// FLUSHDB and FLUSHALL have the same options, which change nothing here.
bool check_flush_mode(Call& call) {
  if (call.words.size() == 1 ||
      (call.words.size() == 2 && (is_word(call.words[1], "sync") || is_word(call.words[1], "async"))))
    return true;
  call.reply.error(kSyntax);
  return false;
}

void flushdb(Call& call) {
  if (!check_flush_mode(call)) return;
  call.databases.clear(call.database);
  call.reply.ok();
}

void flushall(Call& call) {
  if (!check_flush_mode(call)) return;
  call.databases.clear();
  call.reply.ok();
}

std::optional<std::uint32_t> database_number(Call& call, std::string_view word,
                                             std::string_view error = "ERR DB index is out of range") {
  const auto number = to_integer(word);
  if (number && *number >= 0 && *number < Databases::kCount) return static_cast<std::uint32_t>(*number);
  call.reply.error(number ? "ERR DB index is out of range" : error);
  return std::nullopt;
}

void swapdb(Call& call) {
  const auto first = database_number(call, call.words[1], "ERR invalid first DB index");
  if (!first) return;
  const auto second = database_number(call, call.words[2], "ERR invalid second DB index");
  if (!second) return;
  call.databases.swap(*first, *second);
  call.reply.ok();
}

// -- Keys that become other keys --

/// Moves the value and the deadline to another key, which must be missing. `entry` is erased.
void move_to(Call& call, Database::Entry& entry, std::uint32_t number, std::string_view key) {
  const auto deadline = call.db().deadline(entry);
  auto value = std::move(entry.value.value);
  const bool has_grown = entry.value.has_grown;
  entry.value.value.emplace<Text>();
  call.erase(entry);
  Database::Entry& moved = call.databases.at(number).get_or_insert(key, call.now);
  moved.value.value = std::move(value);
  moved.value.has_grown = has_grown;
  call.databases.use(moved);
  if (deadline) call.databases.at(number).set_deadline(moved, *deadline);
  call.databases.changed(number, key);
}

template <bool only_new>
void rename(Call& call) {
  Database::Entry* const entry = call.find(call.words[1]);
  if (entry == nullptr) return call.reply.error(kNoKey);
  const auto done = [&](bool renamed) { only_new ? call.reply.integer(renamed ? 1 : 0) : call.reply.ok(); };
  if (call.words[1] == call.words[2]) return done(false);
  if (Database::Entry* const target = call.find(call.words[2])) {
    if (only_new) return done(false);
    call.erase(*target);
  }
  move_to(call, *entry, call.database, call.words[2]);
  done(true);
}

void move(Call& call) {
  const auto number = database_number(call, call.words[2], kNotAnInteger);
  if (!number) return;
  if (*number == call.database) return call.reply.error("ERR source and destination objects are the same");
  Database::Entry* const entry = call.find(call.words[1]);
  if (entry == nullptr || call.databases.at(*number).find(call.words[1], call.now) != nullptr)
    return call.reply.integer(0);
  move_to(call, *entry, *number, call.words[1]);
  call.reply.integer(1);
}

void copy(Call& call) {
  std::uint32_t number = call.database;
  bool replaces = false;
  for (std::size_t i = 3; i < call.words.size(); ++i) {
    if (is_word(call.words[i], "replace")) {
      replaces = true;
    } else if (is_word(call.words[i], "db") && i + 1 < call.words.size()) {
      const auto named = database_number(call, call.words[++i], kNotAnInteger);
      if (!named) return;
      number = *named;
    } else {
      return call.reply.error(kSyntax);
    }
  }
  if (number == call.database && call.words[1] == call.words[2])
    return call.reply.error("ERR source and destination objects are the same");
  Database::Entry* const entry = call.find(call.words[1]);
  if (entry == nullptr) return call.reply.integer(0);
  Database& target = call.databases.at(number);
  if (Database::Entry* const old = target.find(call.words[2], call.now)) {
    if (!replaces) return call.reply.integer(0);
    call.databases.erase(number, *old);
  }
  Database::Entry& copied = target.get_or_insert(call.words[2], call.now);
  if (Text* const text = entry->value.text())
    copied.value.value.emplace<Text>(call.databases.memory(), *text);
  else
    copied.value.value = entry->value.collection()->copy();
  copied.value.has_grown = entry->value.has_grown;
  call.databases.use(copied);
  if (const auto deadline = call.db().deadline(*entry)) target.set_deadline(copied, *deadline);
  call.databases.changed(number, call.words[2]);
  call.reply.integer(1);
}

/// The number of receivers is that of this server.
void publish(Call& call) {
  call.reply.integer(static_cast<std::int64_t>(call.publisher.publish(call.words[1], call.words[2])));
}

// -- OBJECT --

std::string_view encoding_of(Item& item) {
  // The same answers as those of Redis 7.0: a number, a string of at most 44 bytes, or anything else.
  constexpr std::size_t kMostEmbedded = 44;
  const Text* const text = item.text();
  if (text == nullptr) return item.collection()->encoding();
  if (item.has_grown) return "raw";
  if (to_integer(*text)) return "int";
  return text->size() <= kMostEmbedded ? "embstr" : "raw";
}

constexpr auto kObjectHelp = std::to_array<std::string_view>({
    "ENCODING <key>",
    "    Return the name that Redis has for the way in which it would keep the value.",
    "FREQ <key>",
    "    Return how often the key is used, if the policy of maxmemory counts that.",
    "IDLETIME <key>",
    "    Return the seconds since the key was used, as far as this server knows.",
    "REFCOUNT <key>",
    "    Return 1.",
});

void object(Call& call) {
  const std::string what = to_lower(call.words[1]);
  if (what == "help" && call.words.size() == 2) return help(call.reply, "OBJECT", kObjectHelp);
  if (what != "help" && what != "encoding" && what != "refcount" && what != "idletime" && what != "freq")
    return call.reply.error("ERR unknown subcommand '" + std::string(call.words[1]) + "'. Try OBJECT HELP.");
  if (call.words.size() != 3)
    return call.reply.error("ERR wrong number of arguments for 'object|" + what + "' command");
  Database::Entry* const entry = call.look_at(call.words[2]);
  if (entry == nullptr) return call.reply.null();
  if (what == "encoding") return call.reply.bulk(encoding_of(entry->value));
  if (what == "refcount") return call.reply.integer(1);
  const UsageClock& clock = call.databases.shared().usage;
  if (what == "idletime" && clock.counts_uses)
    return call.reply.error(
        "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching "
        "between "
        "policies at runtime LRU and LFU data will take some time to adjust.");
  if (what == "freq" && !clock.counts_uses)
    return call.reply.error(
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when "
        "switching between policies at runtime LRU and LFU data will take some time to adjust.");
  call.reply.integer(what == "freq" ? clock.count_of(entry->value.usage)
                                    : clock.idle_seconds(entry->value.usage));
}

using namespace flag;
constexpr std::array kKeyCommands = {
    Command{"del", -2, kWrite, 1, -1, 1, del},
    Command{"unlink", -2, kWrite | kFast, 1, -1, 1, del},
    Command{"exists", -2, kRead | kFast, 1, -1, 1, exists},
    Command{"touch", -2, kRead | kFast, 1, -1, 1, touch},
    Command{"type", 2, kRead | kFast, 1, 1, 1, type},
    Command{"expire", -3, kWrite | kFast, 1, 1, 1, expire<true, true>},
    Command{"pexpire", -3, kWrite | kFast, 1, 1, 1, expire<false, true>},
    Command{"expireat", -3, kWrite | kFast, 1, 1, 1, expire<true, false>},
    Command{"pexpireat", -3, kWrite | kFast, 1, 1, 1, expire<false, false>},
    Command{"ttl", 2, kRead | kFast | kUsesTime, 1, 1, 1, time_to_live<true, true>},
    Command{"pttl", 2, kRead | kFast | kUsesTime, 1, 1, 1, time_to_live<false, true>},
    Command{"expiretime", 2, kRead | kFast, 1, 1, 1, time_to_live<true, false>},
    Command{"pexpiretime", 2, kRead | kFast, 1, 1, 1, time_to_live<false, false>},
    Command{"persist", 2, kWrite | kFast, 1, 1, 1, persist},
    Command{"keys", 2, kRead, 0, 0, 0, keys},
    Command{"scan", -2, kRead, 0, 0, 0, scan},
    Command{"randomkey", 1, kRead, 0, 0, 0, randomkey},
    Command{"dbsize", 1, kRead | kFast, 0, 0, 0, dbsize},
    Command{"flushdb", -1, kWrite, 0, 0, 0, flushdb},
    Command{"flushall", -1, kWrite, 0, 0, 0, flushall},
    Command{"swapdb", 3, kWrite | kFast, 0, 0, 0, swapdb},
    Command{"rename", 3, kWrite, 1, 2, 1, rename<false>},
    Command{"renamenx", 3, kWrite | kFast, 1, 2, 1, rename<true>},
    Command{"move", 3, kWrite | kFast, 1, 1, 1, move},
    Command{"copy", -3, kWrite | kGrows, 1, 2, 1, copy},
    Command{"publish", 3, kWrite | kFast | kPubSub, 0, 0, 0, publish},
    Command{"object", -2, kRead, 2, 2, 1, object},
};

}  // namespace

std::span<const Command> key_commands() {
  return kKeyCommands;
}

}  // namespace rdmc::kv

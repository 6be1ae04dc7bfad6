// The commands of hashes.
#include <array>
#include <cmath>

#include "apps/replicated-kv/commands/collections.hpp"
#include "apps/replicated-kv/data/hash.hpp"

namespace rdmc::kv {

namespace {

void reply_value(Call& call, const std::optional<std::string_view>& value) {
  value ? call.reply.bulk(*value) : call.reply.null();
}

template <bool replies_ok>
void hash_set(Call& call) {
  if (call.words.size() % 2 != 0)
    return call.reply.error("ERR wrong number of arguments for '" + to_lower(call.words[0]) + "' command");
  Hash* hash = nullptr;
  if (!find_collection(call, call.words[1], hash)) return;
  hash = &get_or_create<Hash>(call, call.words[1]);
  std::size_t added = 0;
  for (std::size_t i = 2; i < call.words.size(); i += 2) added += hash->set(call.words[i], call.words[i + 1]);
  call.changed(call.words[1]);
  replies_ok ? call.reply.ok() : reply_count(call, added);
}

void hash_set_new(Call& call) {
  Hash* hash = nullptr;
  if (!find_collection(call, call.words[1], hash)) return;
  const bool is_new = hash == nullptr || !hash->find(call.words[2]);
  if (is_new) {
    get_or_create<Hash>(call, call.words[1]).set(call.words[2], call.words[3]);
    call.changed(call.words[1]);
  }
  call.reply.integer(is_new ? 1 : 0);
}

void hash_get(Call& call) {
  Hash* hash = nullptr;
  if (!find_collection(call, call.words[1], hash)) return;
  reply_value(call, hash == nullptr ? std::nullopt : hash->find(call.words[2]));
}

void hash_get_many(Call& call) {
  Hash* hash = nullptr;
  if (!find_collection(call, call.words[1], hash)) return;
  call.reply.array(call.words.size() - 2);
  for (const std::string_view name : call.words.subspan(2))
    reply_value(call, hash == nullptr ? std::nullopt : hash->find(name));
}

void hash_delete(Call& call) {
  Hash* hash = nullptr;
  if (!find_collection(call, call.words[1], hash)) return;
  std::size_t erased = 0;
  if (hash != nullptr)
    for (const std::string_view name : call.words.subspan(2)) erased += hash->erase(name);
  if (erased > 0) finish_change(call, call.words[1]);
  reply_count(call, erased);
}

void hash_length(Call& call) {
  Hash* hash = nullptr;
  if (find_collection(call, call.words[1], hash)) reply_count(call, hash == nullptr ? 0 : hash->size());
}

void hash_value_length(Call& call) {
  Hash* hash = nullptr;
  if (!find_collection(call, call.words[1], hash)) return;
  const auto value = hash == nullptr ? std::nullopt : hash->find(call.words[2]);
  reply_count(call, value ? value->size() : 0);
}

void hash_exists(Call& call) {
  Hash* hash = nullptr;
  if (find_collection(call, call.words[1], hash))
    call.reply.integer(hash != nullptr && hash->find(call.words[2]) ? 1 : 0);
}

template <bool has_names, bool has_values>
void hash_get_all(Call& call) {
  Hash* hash = nullptr;
  if (!find_collection(call, call.words[1], hash)) return;
  const std::size_t size = hash == nullptr ? 0 : hash->size();
  has_names&& has_values ? call.reply.map(size) : call.reply.array(size);
  if (hash == nullptr) return;
  hash->visit([&](const Hash::Field& field) {
    if (has_names) call.reply.bulk(field.name);
    if (has_values) call.reply.bulk(field.value);
  });
}

void hash_add(Call& call) {
  const auto difference = integer(call, call.words[3]);
  Hash* hash = nullptr;
  if (!difference || !find_collection(call, call.words[1], hash)) return;
  const auto value = hash == nullptr ? std::nullopt : hash->find(call.words[2]);
  std::int64_t number = 0;
  if (value) {
    const auto known = integer(call, *value, "ERR hash value is not an integer");
    if (!known) return;
    number = *known;
  }
  if (__builtin_add_overflow(number, *difference, &number))
    return call.reply.error("ERR increment or decrement would overflow");
  get_or_create<Hash>(call, call.words[1]).set(call.words[2], std::to_string(number));
  call.changed(call.words[1]);
  call.reply.integer(number);
}

void hash_add_real(Call& call) {
  const auto difference = to_long_real(call.words[3]);
  if (!difference) return call.reply.error(kNotAFloat);
  if (std::isinf(*difference)) return call.reply.error("ERR value is NaN or Infinity");
  Hash* hash = nullptr;
  if (!find_collection(call, call.words[1], hash)) return;
  const auto value = hash == nullptr ? std::nullopt : hash->find(call.words[2]);
  const auto known = value ? to_long_real(*value) : std::optional(0.0L);
  if (!known) return call.reply.error("ERR hash value is not a float");
  const long double sum = *known + *difference;
  if (std::isnan(sum) || std::isinf(sum))
    return call.reply.error("ERR increment would produce NaN or Infinity");
  const std::string text = decimal_text(sum);
  get_or_create<Hash>(call, call.words[1]).set(call.words[2], text);
  call.changed(call.words[1]);
  call.reply.bulk(text);
}

void hash_random_field(Call& call) {
  Hash* hash = nullptr;
  RandomNumbers random(call.random);
  if (call.words.size() == 2) {
    if (!find_collection(call, call.words[1], hash)) return;
    return hash == nullptr ? call.reply.null() : call.reply.bulk(hash->at(random.below(hash->size())).name);
  }
  const auto count = random_count(call, call.words[2]);
  if (!count) return;
  const bool has_values = call.words.size() == 4 && is_word(call.words[3], "withvalues");
  if (call.words.size() > 4 || (call.words.size() == 4 && !has_values)) return call.reply.error(kSyntax);
  if (has_values && (*count > INT64_MAX / 2 || *count < -INT64_MAX / 2))
    return call.reply.error("ERR value is out of range");
  if (!find_collection(call, call.words[1], hash)) return;
  if (hash == nullptr || *count == 0) return call.reply.array(0);
  const std::size_t size = hash->size();
  const auto reply = [&](const Hash::Field& field) {
    if (has_values && call.reply.is_resp3()) call.reply.array(2);
    call.reply.bulk(field.name);
    if (has_values) call.reply.bulk(field.value);
  };
  const auto begin = [&](std::size_t fields) {
    call.reply.array(has_values && !call.reply.is_resp3() ? 2 * fields : fields);
  };
  if (*count < 0) {
    begin(static_cast<std::size_t>(-*count));
    for (std::int64_t i = *count; i < 0; ++i) reply(hash->at(random.below(size)));
  } else if (static_cast<std::size_t>(*count) >= size) {
    begin(size);
    hash->visit(reply);
  } else {
    begin(static_cast<std::size_t>(*count));
    for (const std::size_t at : choose(random, static_cast<std::size_t>(*count), size)) reply(hash->at(at));
  }
}

void hash_scan(Call& call) {
  Hash* hash = nullptr;
  const auto options = begin_scan(call, hash);
  if (!options) return;
  std::vector<std::string> found;
  const auto add = [&](const Hash::Field& field) {
    if (!options->matches(field.name)) return;
    found.emplace_back(field.name);
    found.emplace_back(field.value);
  };
  std::size_t cursor = 0;
  if (hash->has_positions())
    cursor = scan_positions(*options, hash->size(), [&](std::size_t position) { add(hash->at(position)); });
  else
    hash->visit(add);
  reply_scan(call, cursor, found);
}

using namespace flag;
constexpr std::array kHashCommands = {
    Command{"hset", -4, kWrite | kGrows | kFast, 1, 1, 1, hash_set<false>},
    Command{"hmset", -4, kWrite | kGrows | kFast, 1, 1, 1, hash_set<true>},
    Command{"hsetnx", 4, kWrite | kGrows | kFast, 1, 1, 1, hash_set_new},
    Command{"hget", 3, kRead | kFast, 1, 1, 1, hash_get},
    Command{"hmget", -3, kRead | kFast, 1, 1, 1, hash_get_many},
    Command{"hdel", -3, kWrite | kFast, 1, 1, 1, hash_delete},
    Command{"hlen", 2, kRead | kFast, 1, 1, 1, hash_length},
    Command{"hstrlen", 3, kRead | kFast, 1, 1, 1, hash_value_length},
    Command{"hexists", 3, kRead | kFast, 1, 1, 1, hash_exists},
    Command{"hgetall", 2, kRead, 1, 1, 1, hash_get_all<true, true>},
    Command{"hkeys", 2, kRead, 1, 1, 1, hash_get_all<true, false>},
    Command{"hvals", 2, kRead, 1, 1, 1, hash_get_all<false, true>},
    Command{"hincrby", 4, kWrite | kGrows | kFast, 1, 1, 1, hash_add},
    Command{"hincrbyfloat", 4, kWrite | kGrows | kFast, 1, 1, 1, hash_add_real},
    Command{"hrandfield", -2, kRead, 1, 1, 1, hash_random_field},
    Command{"hscan", -3, kRead, 1, 1, 1, hash_scan},
};

}  // namespace

std::span<const Command> hash_commands() {
  return kHashCommands;
}

}  // namespace rdmc::kv

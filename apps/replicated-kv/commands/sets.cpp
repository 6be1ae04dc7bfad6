// The commands of sets.
#include <algorithm>
#include <array>

#include "apps/replicated-kv/commands/collections.hpp"
#include "apps/replicated-kv/data/set.hpp"

namespace rdmc::kv {

namespace {

void set_add(Call& call) {
  Set* set = nullptr;
  if (!find_collection(call, call.words[1], set)) return;
  set = &get_or_create<Set>(call, call.words[1]);
  std::size_t added = 0;
  for (const std::string_view member : call.words.subspan(2)) added += set->insert(member);
  if (added > 0) call.changed(call.words[1]);
  reply_count(call, added);
}

void set_remove(Call& call) {
  Set* set = nullptr;
  if (!find_collection(call, call.words[1], set)) return;
  std::size_t erased = 0;
  if (set != nullptr)
    for (const std::string_view member : call.words.subspan(2)) erased += set->erase(member);
  if (erased > 0) finish_change(call, call.words[1]);
  reply_count(call, erased);
}

void set_size(Call& call) {
  Set* set = nullptr;
  if (find_collection(call, call.words[1], set)) reply_count(call, set == nullptr ? 0 : set->size());
}

void set_contains(Call& call) {
  Set* set = nullptr;
  if (find_collection(call, call.words[1], set))
    call.reply.integer(set != nullptr && set->contains(call.words[2]) ? 1 : 0);
}

void set_contains_many(Call& call) {
  Set* set = nullptr;
  if (!find_collection(call, call.words[1], set)) return;
  call.reply.array(call.words.size() - 2);
  for (const std::string_view member : call.words.subspan(2))
    call.reply.integer(set != nullptr && set->contains(member) ? 1 : 0);
}

void reply_members(Call& call, const Set* set) {
  call.reply.set(set == nullptr ? 0 : set->size());
  if (set != nullptr)
    set->visit([&](std::string_view member) {
      call.reply.bulk(member);
      return true;
    });
}

void set_move(Call& call) {
  Set *from = nullptr, *to = nullptr;
  const std::string_view member = call.words[3];
  if (!find_collection(call, call.words[1], from)) return;
  if (from == nullptr) return call.reply.integer(0);
  if (!find_collection(call, call.words[2], to)) return;
  if (from == to) return call.reply.integer(from->contains(member) ? 1 : 0);
  if (!from->erase(member)) return call.reply.integer(0);
  finish_change(call, call.words[1]);
  if (get_or_create<Set>(call, call.words[2]).insert(member)) call.changed(call.words[2]);
  call.reply.integer(1);
}

void set_pop(Call& call) {
  Set* set = nullptr;
  std::int64_t count = 1;
  const bool has_count = call.words.size() == 3;
  if (call.words.size() > 3) return call.reply.error(kSyntax);
  if (has_count) {
    const auto number = to_integer(call.words[2]);
    if (!number || *number < 0) return call.reply.error("ERR value is out of range, must be positive");
    count = *number;
  }
  if (!find_collection(call, call.words[1], set)) return;
  if (set == nullptr) return has_count ? call.reply.set(0) : call.reply.null();
  if (count == 0) return call.reply.set(0);
  if (static_cast<std::size_t>(count) >= set->size() && has_count) {
    reply_members(call, set);
    return call.erase(*call.find(call.words[1]));
  }
  if (has_count) call.reply.set(static_cast<std::size_t>(count));
  RandomNumbers random(call.random);
  Set::Digits digits;
  for (; count > 0; --count) {
    const std::string member(set->at(random.below(set->size()), digits));
    call.reply.bulk(member);
    set->erase(member);
  }
  finish_change(call, call.words[1]);
}

void set_random(Call& call) {
  Set* set = nullptr;
  Set::Digits digits;
  RandomNumbers random(call.random);
  if (call.words.size() == 2) {
    if (!find_collection(call, call.words[1], set)) return;
    return set == nullptr ? call.reply.null() : call.reply.bulk(set->at(random.below(set->size()), digits));
  }
  if (call.words.size() > 3) return call.reply.error(kSyntax);
  const auto count = random_count(call, call.words[2]);
  if (!count || !find_collection(call, call.words[1], set)) return;
  if (set == nullptr || *count == 0) return call.reply.array(0);
  if (*count > 0 && static_cast<std::size_t>(*count) >= set->size()) {
    call.reply.array(set->size());
    return set->visit([&](std::string_view member) { return call.reply.bulk(member), true; });
  }
  if (*count < 0) {
    call.reply.array(static_cast<std::size_t>(-*count));
    for (std::int64_t i = *count; i < 0; ++i) call.reply.bulk(set->at(random.below(set->size()), digits));
    return;
  }
  call.reply.array(static_cast<std::size_t>(*count));
  for (const std::size_t at : choose(random, static_cast<std::size_t>(*count), set->size()))
    call.reply.bulk(set->at(at, digits));
}

void set_scan(Call& call) {
  Set* set = nullptr;
  const auto options = begin_scan(call, set);
  if (!options) return;
  std::vector<std::string> found;
  const auto add = [&](std::string_view member) {
    if (options->matches(member)) found.emplace_back(member);
    return true;
  };
  std::size_t cursor = 0;
  Set::Digits digits;
  if (set->has_positions())
    cursor = scan_positions(*options, set->size(), [&](std::size_t at) { add(set->at(at, digits)); });
  else
    set->visit(add);
  reply_scan(call, cursor, found);
}

// -- Several sets --

/// Finds sets. A missing one is null. Returns nullopt after an error reply.
std::optional<std::vector<Set*>> find_sets(Call& call, Arguments keys) {
  std::vector<Set*> sets;
  for (const std::string_view key : keys) {
    Set* set = nullptr;
    if (!find_collection(call, key, set)) return std::nullopt;
    sets.push_back(set);
  }
  return sets;
}

/// Calls `visitor(member)` for each member of all sets, until it returns false.
template <typename Visitor>
void intersect(std::vector<Set*> sets, const Visitor& visitor) {
  for (const Set* const set : sets)
    if (set == nullptr) return;
  // The members of the smallest set are looked for in the others.
  std::ranges::stable_sort(sets, {}, [](const Set* set) { return set->size(); });
  sets.front()->visit([&](std::string_view member) {
    for (std::size_t i = 1; i < sets.size(); ++i)
      if (!sets[i]->contains(member)) return true;
    return visitor(member);
  });
}

enum class SetOperation : std::uint8_t { intersection, union_of_all, difference };

std::unique_ptr<Set> combine(Call& call, SetOperation operation, const std::vector<Set*>& sets) {
  auto result = std::make_unique<Set>(call.databases.shared());
  const auto add = [&](std::string_view member) { return result->insert(member), true; };
  switch (operation) {
    case SetOperation::intersection: intersect(sets, add); break;
    case SetOperation::union_of_all:
      for (const Set* const set : sets)
        if (set != nullptr) set->visit(add);
      break;
    case SetOperation::difference:
      if (sets[0] == nullptr) break;
      sets[0]->visit([&](std::string_view member) {
        for (std::size_t i = 1; i < sets.size(); ++i)
          if (sets[i] != nullptr && sets[i]->contains(member)) return true;
        return add(member);
      });
      break;
  }
  return result;
}

template <SetOperation operation>
void set_combine(Call& call) {
  const auto sets = find_sets(call, call.words.subspan(1));
  if (sets) reply_members(call, combine(call, operation, *sets).get());
}

template <SetOperation operation>
void set_combine_store(Call& call) {
  const auto sets = find_sets(call, call.words.subspan(2));
  if (!sets) return;
  auto result = combine(call, operation, *sets);
  const std::size_t size = result->size();
  store(call, call.words[1], std::move(result));
  reply_count(call, size);
}

void set_intersection_size(Call& call) {
  const auto numbered = numbered_keys(call, 1, "ERR Number of keys can't be greater than number of args");
  if (!numbered) return;
  std::int64_t limit = 0;
  for (std::size_t i = numbered->next; i < call.words.size(); i += 2) {
    if (!is_word(call.words[i], "limit") || i + 1 == call.words.size()) return call.reply.error(kSyntax);
    const auto number = to_integer(call.words[i + 1]);
    if (!number || *number < 0) return call.reply.error("ERR LIMIT can't be negative");
    limit = *number;
  }
  const auto sets = find_sets(call, numbered->keys);
  if (!sets) return;
  std::int64_t size = 0;
  intersect(*sets, [&](std::string_view) { return ++size != limit; });
  call.reply.integer(size);
}

using namespace flag;
constexpr std::array kSetCommands = {
    Command{"sadd", -3, kWrite | kGrows | kFast, 1, 1, 1, set_add},
    Command{"srem", -3, kWrite | kFast, 1, 1, 1, set_remove},
    Command{"scard", 2, kRead | kFast, 1, 1, 1, set_size},
    Command{"sismember", 3, kRead | kFast, 1, 1, 1, set_contains},
    Command{"smismember", -3, kRead | kFast, 1, 1, 1, set_contains_many},
    Command{"smembers", 2, kRead, 1, 1, 1, set_combine<SetOperation::intersection>},
    Command{"smove", 4, kWrite | kFast, 1, 2, 1, set_move},
    Command{"spop", -2, kWrite | kFast, 1, 1, 1, set_pop},
    Command{"srandmember", -2, kRead, 1, 1, 1, set_random},
    Command{"sscan", -3, kRead, 1, 1, 1, set_scan},
    Command{"sinter", -2, kRead, 1, -1, 1, set_combine<SetOperation::intersection>},
    Command{"sinterstore", -3, kWrite | kGrows, 1, -1, 1, set_combine_store<SetOperation::intersection>},
    Command{"sintercard", -3, kRead, 0, 0, 0, set_intersection_size},
    Command{"sunion", -2, kRead, 1, -1, 1, set_combine<SetOperation::union_of_all>},
    Command{"sunionstore", -3, kWrite | kGrows, 1, -1, 1, set_combine_store<SetOperation::union_of_all>},
    Command{"sdiff", -2, kRead, 1, -1, 1, set_combine<SetOperation::difference>},
    Command{"sdiffstore", -3, kWrite | kGrows, 1, -1, 1, set_combine_store<SetOperation::difference>},
};

}  // namespace

std::span<const Command> set_commands() {
  return kSetCommands;
}

}  // namespace rdmc::kv

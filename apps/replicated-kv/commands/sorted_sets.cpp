// The commands of sorted sets that concern single members, or the ends, and do not wait.
#include <array>
#include <cmath>

#include "apps/replicated-kv/commands/sorted_set_options.hpp"

namespace rdmc::kv {

namespace {

// -- ZADD --

struct AddOptions {
  bool only_new = false, only_existing = false, only_greater = false, only_less = false;
  bool counts_changes = false, adds_to_score = false;
  std::size_t next = 2;  // the first word after the options
};

std::optional<AddOptions> add_options(Call& call, bool is_increment) {
  AddOptions options;
  options.adds_to_score = is_increment;
  const auto fail = [&](std::string_view error) {
    call.reply.error(error);
    return std::nullopt;
  };
  for (; options.next < call.words.size(); ++options.next) {
    const std::string_view word = call.words[options.next];
    if (is_word(word, "nx"))
      options.only_new = true;
    else if (is_word(word, "xx"))
      options.only_existing = true;
    else if (is_word(word, "gt"))
      options.only_greater = true;
    else if (is_word(word, "lt"))
      options.only_less = true;
    else if (is_word(word, "ch"))
      options.counts_changes = true;
    else if (is_word(word, "incr"))
      options.adds_to_score = true;
    else
      break;
  }
  const std::size_t rest = call.words.size() - options.next;
  if (rest == 0 || rest % 2 != 0) return fail(kSyntax);
  if (options.only_new && options.only_existing)
    return fail("ERR XX and NX options at the same time are not compatible");
  if ((options.only_greater && options.only_new) || (options.only_less && options.only_new) ||
      (options.only_greater && options.only_less))
    return fail("ERR GT, LT, and/or NX options at the same time are not compatible");
  if (options.adds_to_score && rest > 2)
    return fail("ERR INCR option supports a single increment-element pair");
  return options;
}

template <bool is_increment>
void sorted_set_add(Call& call) {
  const auto options = add_options(call, is_increment);
  if (!options) return;
  const auto words = call.words.subspan(options->next);
  std::vector<double> scores;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const auto score = to_real(words[i]);
    if (!score) return call.reply.error(kNotAFloat);
    scores.push_back(*score);
  }
  const std::string_view key = call.words[1];
  SortedSet* set = nullptr;
  if (!find_collection(call, key, set)) return;
  if (set == nullptr && options->only_existing)
    return options->adds_to_score ? call.reply.null() : call.reply.integer(0);
  std::size_t added = 0, updated = 0;
  std::optional<double> result;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const std::string_view name = words[2 * i + 1];
    double score = scores[i];
    const auto known = set == nullptr ? std::nullopt : set->score(name);
    if (known) {
      if (options->only_new) continue;
      if (options->adds_to_score) score += *known;
      if (std::isnan(score)) return call.reply.error("ERR resulting score is not a number (NaN)");
      if ((options->only_less && score >= *known) || (options->only_greater && score <= *known)) continue;
      result = score;
      if (score == *known) continue;
      ++updated;
    } else {
      if (options->only_existing) continue;
      if (set == nullptr) set = &get_or_create<SortedSet>(call, key);
      result = score;
      ++added;
    }
    set->set(name, score);
  }
  if (added + updated > 0) call.changed(key);
  if (!options->adds_to_score) return reply_count(call, options->counts_changes ? added + updated : added);
  result ? call.reply.real(*result) : call.reply.null();
}

// -- Members --

void sorted_set_remove(Call& call) {
  SortedSet* set = nullptr;
  if (!find_collection(call, call.words[1], set)) return;
  std::size_t erased = 0;
  if (set != nullptr)
    for (const std::string_view name : call.words.subspan(2)) erased += set->erase(name);
  if (erased > 0) finish_change(call, call.words[1]);
  reply_count(call, erased);
}

void sorted_set_size(Call& call) {
  SortedSet* set = nullptr;
  if (find_collection(call, call.words[1], set)) reply_count(call, set == nullptr ? 0 : set->size());
}

void reply_score(Call& call, const SortedSet* set, std::string_view name) {
  const auto score = set == nullptr ? std::nullopt : set->score(name);
  score ? call.reply.real(*score) : call.reply.null();
}

void sorted_set_score(Call& call) {
  SortedSet* set = nullptr;
  if (find_collection(call, call.words[1], set)) reply_score(call, set, call.words[2]);
}

void sorted_set_scores(Call& call) {
  SortedSet* set = nullptr;
  if (!find_collection(call, call.words[1], set)) return;
  call.reply.array(call.words.size() - 2);
  for (const std::string_view name : call.words.subspan(2)) reply_score(call, set, name);
}

template <bool is_reversed>
void sorted_set_rank(Call& call) {
  SortedSet* set = nullptr;
  if (!find_collection(call, call.words[1], set)) return;
  const auto rank = set == nullptr ? std::nullopt : set->rank(call.words[2]);
  if (!rank) return call.reply.null();
  reply_count(call, is_reversed ? set->size() - 1 - *rank : *rank);
}

// -- Ends --

template <SortedSetEnd end>
void sorted_set_pop(Call& call) {
  if (call.words.size() > 3) return call.reply.error(kSyntax);
  const bool has_count = call.words.size() == 3;
  std::size_t count = 1;
  if (has_count) {
    const auto number = to_integer(call.words[2]);
    if (!number || *number < 0) return call.reply.error("ERR value is out of range, must be positive");
    count = static_cast<std::size_t>(*number);
  }
  SortedSet* set = nullptr;
  if (!find_collection(call, call.words[1], set)) return;
  if (set == nullptr || count == 0) return call.reply.array(0);
  count = std::min(count, set->size());
  const bool is_nested = call.reply.is_resp3() && has_count;
  call.reply.array(is_nested ? count : 2 * count);
  pop_members(call, call.words[1], *set, end, count, [&](const SortedSet::Member& member) {
    if (is_nested) call.reply.array(2);
    call.reply.bulk(member.name);
    call.reply.real(member.score);
  });
}

void sorted_set_pop_from_first(Call& call) {
  const auto options = sorted_set_pop_options(call, 1);
  if (!options) return;
  for (const std::string_view key : options->keys) {
    SortedSet* set = nullptr;
    if (!find_collection(call, key, set)) return;
    if (set == nullptr) continue;
    return pop_members_reply(call, key, *set, options->end, options->count);
  }
  call.reply.null_array();
}

// -- Random members, and scans --

void sorted_set_random(Call& call) {
  SortedSet* set = nullptr;
  RandomNumbers random(call.random);
  if (call.words.size() == 2) {
    if (!find_collection(call, call.words[1], set)) return;
    return set == nullptr ? call.reply.null() : call.reply.bulk(set->at(random.below(set->size())).name);
  }
  const auto count = random_count(call, call.words[2]);
  if (!count) return;
  const bool has_scores = call.words.size() == 4 && is_word(call.words[3], "withscores");
  if (call.words.size() > 4 || (call.words.size() == 4 && !has_scores)) return call.reply.error(kSyntax);
  if (has_scores && (*count > INT64_MAX / 2 || *count < -INT64_MAX / 2))
    return call.reply.error("ERR value is out of range");
  if (!find_collection(call, call.words[1], set)) return;
  if (set == nullptr || *count == 0) return call.reply.array(0);
  const std::size_t size = set->size();
  if (*count < 0) {
    const MemberReply reply(call, static_cast<std::size_t>(-*count), has_scores);
    for (std::int64_t i = *count; i < 0; ++i) reply(set->at(random.below(size)));
  } else if (static_cast<std::size_t>(*count) >= size) {
    set->visit(0, size, false, MemberReply(call, size, has_scores));
  } else {
    const MemberReply reply(call, static_cast<std::size_t>(*count), has_scores);
    for (const std::size_t at : choose(random, static_cast<std::size_t>(*count), size)) reply(set->at(at));
  }
}

void sorted_set_scan(Call& call) {
  SortedSet* set = nullptr;
  const auto options = begin_scan(call, set);
  if (!options) return;
  std::vector<std::string> found;
  const auto add = [&](const SortedSet::Member& member) {
    if (!options->matches(member.name)) return;
    found.emplace_back(member.name);
    found.push_back(text_of(member.score));
  };
  std::size_t cursor = 0;
  if (set->has_positions())
    cursor = scan_positions(*options, set->size(), [&](std::size_t at) { add(set->at_position(at)); });
  else
    set->visit(0, set->size(), false, add);
  reply_scan(call, cursor, found);
}

using namespace flag;
constexpr std::array kSortedSetCommands = {
    Command{"zadd", -4, kWrite | kGrows | kFast, 1, 1, 1, sorted_set_add<false>},
    Command{"zincrby", 4, kWrite | kGrows | kFast, 1, 1, 1, sorted_set_add<true>},
    Command{"zrem", -3, kWrite | kFast, 1, 1, 1, sorted_set_remove},
    Command{"zcard", 2, kRead | kFast, 1, 1, 1, sorted_set_size},
    Command{"zscore", 3, kRead | kFast, 1, 1, 1, sorted_set_score},
    Command{"zmscore", -3, kRead | kFast, 1, 1, 1, sorted_set_scores},
    Command{"zrank", 3, kRead | kFast, 1, 1, 1, sorted_set_rank<false>},
    Command{"zrevrank", 3, kRead | kFast, 1, 1, 1, sorted_set_rank<true>},
    Command{"zpopmin", -2, kWrite | kFast, 1, 1, 1, sorted_set_pop<SortedSetEnd::least>},
    Command{"zpopmax", -2, kWrite | kFast, 1, 1, 1, sorted_set_pop<SortedSetEnd::greatest>},
    Command{"zmpop", -4, kWrite, 0, 0, 0, sorted_set_pop_from_first},
    Command{"zrandmember", -2, kRead, 1, 1, 1, sorted_set_random},
    Command{"zscan", -3, kRead, 1, 1, 1, sorted_set_scan},
};

}  // namespace

std::optional<SortedSetPopOptions> sorted_set_pop_options(Call& call, std::size_t at) {
  const auto numbered = numbered_keys(call, at);
  if (!numbered) return std::nullopt;
  const bool has_end = numbered->next < call.words.size();
  const bool is_least = has_end && is_word(call.words[numbered->next], "min");
  if (!has_end || (!is_least && !is_word(call.words[numbered->next], "max"))) {
    call.reply.error(kSyntax);
    return std::nullopt;
  }
  const auto count = pop_count(call, numbered->next + 1);
  if (!count) return std::nullopt;
  return SortedSetPopOptions{numbered->keys, is_least ? SortedSetEnd::least : SortedSetEnd::greatest, *count};
}

void pop_members_reply(Call& call, std::string_view key, SortedSet& set, SortedSetEnd end,
                       std::size_t count) {
  call.reply.array(2);
  call.reply.bulk(key);
  call.reply.array(std::min(count, set.size()));
  pop_members(call, key, set, end, count, [&](const SortedSet::Member& member) {
    call.reply.array(2);
    call.reply.bulk(member.name);
    call.reply.real(member.score);
  });
}

std::span<const Command> sorted_set_commands() {
  return kSortedSetCommands;
}

}  // namespace rdmc::kv

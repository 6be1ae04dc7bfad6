// The commands of lists that do not wait.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "apps/replicated-kv/commands/list_options.hpp"

namespace rdmc::kv {

namespace {

using End = List::End;

template <End end, bool only_existing>
void list_push(Call& call) {
  List* list = nullptr;
  if (!find_collection(call, call.words[1], list)) return;
  if (only_existing && list == nullptr) return call.reply.integer(0);
  list = &get_or_create<List>(call, call.words[1]);
  for (const std::string_view element : call.words.subspan(2)) list->push(end, element);
  call.changed(call.words[1]);
  reply_count(call, list->size());
}

/// Replies with an array of `count` elements from an end, and removes them.
void pop_many(Call& call, std::string_view key, List& list, End end, std::size_t count) {
  count = std::min(count, list.size());
  call.reply.array(count);
  for (; count > 0; --count) call.reply.bulk(list.pop(end));
  finish_change(call, key);
}

template <End end>
void list_pop(Call& call) {
  if (call.words.size() > 3)
    return call.reply.error("ERR wrong number of arguments for '" + to_lower(call.words[0]) + "' command");
  std::int64_t count = -1;
  if (call.words.size() == 3) {
    const auto number = to_integer(call.words[2]);
    if (!number || *number < 0) return call.reply.error("ERR value is out of range, must be positive");
    count = *number;
  }
  List* list = nullptr;
  if (!find_collection(call, call.words[1], list)) return;
  if (list == nullptr) return count < 0 ? call.reply.null() : call.reply.null_array();
  if (count == 0) return call.reply.array(0);
  if (count > 0) return pop_many(call, call.words[1], *list, end, static_cast<std::size_t>(count));
  call.reply.bulk(list->pop(end));
  finish_change(call, call.words[1]);
}

void list_pop_from_first(Call& call) {
  const auto options = list_pop_options(call, 1);
  if (!options) return;
  for (const std::string_view key : options->keys) {
    List* list = nullptr;
    if (!find_collection(call, key, list)) return;
    if (list == nullptr) continue;
    return pop_elements(call, key, *list, options->end, options->count);
  }
  call.reply.null_array();
}

void list_length(Call& call) {
  List* list = nullptr;
  if (find_collection(call, call.words[1], list)) reply_count(call, list == nullptr ? 0 : list->size());
}

void list_range(Call& call) {
  const auto first = integer(call, call.words[2]);
  if (!first) return;
  const auto last = integer(call, call.words[3]);
  List* list = nullptr;
  if (!last || !find_collection(call, call.words[1], list)) return;
  const Slice slice = list == nullptr ? Slice{} : slice_of(*first, *last, list->size());
  call.reply.array(slice.count);
  if (slice.count == 0) return;
  List::Place at = list->place_of(slice.first);
  for (std::size_t i = 0; i < slice.count; ++i, at = list->next(at)) call.reply.bulk(list->at(at));
}

/// The place of an index, which counts from the end if it is negative, or nullopt if there is none.
std::optional<List::Place> place_of(const List& list, std::int64_t index) {
  const auto size = static_cast<std::int64_t>(list.size());
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::nullopt;
  return list.place_of(static_cast<std::size_t>(index));
}

void list_index(Call& call) {
  List* list = nullptr;
  if (!find_collection(call, call.words[1], list)) return;
  if (list == nullptr) return call.reply.null();
  const auto index = integer(call, call.words[2]);
  if (!index) return;
  const auto place = place_of(*list, *index);
  place ? call.reply.bulk(list->at(*place)) : call.reply.null();
}

void list_set(Call& call) {
  List* list = nullptr;
  if (!find_collection(call, call.words[1], list)) return;
  if (list == nullptr) return call.reply.error(kNoKey);
  const auto index = integer(call, call.words[2]);
  if (!index) return;
  const auto place = place_of(*list, *index);
  if (!place) return call.reply.error("ERR index out of range");
  list->replace(*place, call.words[3]);
  call.changed(call.words[1]);
  call.reply.ok();
}

void list_trim(Call& call) {
  const auto first = integer(call, call.words[2]);
  if (!first) return;
  const auto last = integer(call, call.words[3]);
  List* list = nullptr;
  if (!last || !find_collection(call, call.words[1], list)) return;
  if (list == nullptr) return call.reply.ok();
  const Slice slice = slice_of(*first, *last, list->size());
  const std::size_t end = slice.first + slice.count;
  if (slice.count == 0) {
    call.erase(*call.find(call.words[1]));
    return call.reply.ok();
  }
  list->erase(list->place_of(end), list->size() - end);
  list->erase(list->begin(), slice.first);
  finish_change(call, call.words[1]);
  call.reply.ok();
}

void list_remove(Call& call) {
  const auto count = integer(call, call.words[2]);
  List* list = nullptr;
  if (!count || !find_collection(call, call.words[1], list)) return;
  if (list == nullptr) return call.reply.integer(0);
  const std::string_view wanted = call.words[3];
  std::size_t removed = 0;
  const std::size_t most = *count == 0
                               ? SIZE_MAX
                               : static_cast<std::size_t>(*count < 0 ? 0 - static_cast<std::uint64_t>(*count)
                                                                     : static_cast<std::uint64_t>(*count));
  if (*count >= 0) {
    for (List::Place at = list->begin(); at != list->end() && removed < most;) {
      if (list->at(at) == wanted) {
        at = list->erase(at);
        ++removed;
      } else {
        at = list->next(at);
      }
    }
  } else {
    for (List::Place at = list->end(); at != list->begin() && removed < most;) {
      at = list->previous(at);
      if (list->at(at) != wanted) continue;
      at = list->erase(at);
      ++removed;
    }
  }
  if (removed > 0) finish_change(call, call.words[1]);
  reply_count(call, removed);
}

void list_insert(Call& call) {
  const bool is_after = is_word(call.words[2], "after");
  if (!is_after && !is_word(call.words[2], "before")) return call.reply.error(kSyntax);
  List* list = nullptr;
  if (!find_collection(call, call.words[1], list)) return;
  if (list == nullptr) return call.reply.integer(0);
  for (List::Place at = list->begin(); at != list->end(); at = list->next(at)) {
    if (list->at(at) != call.words[3]) continue;
    list->insert(is_after ? list->next(at) : at, call.words[4]);
    call.changed(call.words[1]);
    return reply_count(call, list->size());
  }
  call.reply.integer(-1);
}

struct PositionOptions {
  std::int64_t rank = 1, count = -1, most = 0;
};

std::optional<PositionOptions> position_options(Call& call) {
  PositionOptions options;
  for (std::size_t i = 3; i < call.words.size(); i += 2) {
    const auto value = [&]() -> std::optional<std::int64_t> { return integer(call, call.words[i + 1]); };
    const bool has_value = i + 1 < call.words.size();
    if (has_value && is_word(call.words[i], "rank")) {
      const auto number = value();
      if (!number) return std::nullopt;
      if (*number == 0) {
        call.reply.error(
            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use "
            "negative to start from the end of the list");
        return std::nullopt;
      }
      options.rank = *number;
    } else if (has_value && is_word(call.words[i], "count")) {
      const auto number = to_integer(call.words[i + 1]);
      if (!number || *number < 0) {
        call.reply.error("ERR COUNT can't be negative");
        return std::nullopt;
      }
      options.count = *number;
    } else if (has_value && is_word(call.words[i], "maxlen")) {
      const auto number = to_integer(call.words[i + 1]);
      if (!number || *number < 0) {
        call.reply.error("ERR MAXLEN can't be negative");
        return std::nullopt;
      }
      options.most = *number;
    } else {
      call.reply.error(kSyntax);
      return std::nullopt;
    }
  }
  return options;
}

void list_position(Call& call) {
  const auto options = position_options(call);
  List* list = nullptr;
  if (!options || !find_collection(call, call.words[1], list)) return;
  const bool is_one = options->count < 0;
  std::vector<std::size_t> found;
  const std::size_t size = list == nullptr ? 0 : list->size();
  const std::size_t looked =
      options->most == 0 ? size : std::min(size, static_cast<std::size_t>(options->most));
  const std::size_t most = is_one                ? 1
                           : options->count == 0 ? SIZE_MAX
                                                 : static_cast<std::size_t>(options->count);
  const bool is_reversed = options->rank < 0;
  const auto rank = static_cast<std::uint64_t>(options->rank);
  std::uint64_t skipped = (is_reversed ? 0 - rank : rank) - 1;
  List::Place at{};
  if (list != nullptr) at = is_reversed ? list->end() : list->begin();
  for (std::size_t i = 0; i < looked && found.size() < most; ++i) {
    if (is_reversed) at = list->previous(at);
    if (list->at(at) == call.words[2]) {
      if (skipped == 0)
        found.push_back(is_reversed ? size - 1 - i : i);
      else
        --skipped;
    }
    if (!is_reversed) at = list->next(at);
  }
  if (is_one) return found.empty() ? call.reply.null() : reply_count(call, found[0]);
  call.reply.array(found.size());
  for (const std::size_t index : found) reply_count(call, index);
}

void list_move(Call& call) {
  const auto from = list_end(call, call.words[3]);
  if (!from) return;
  const auto to = list_end(call, call.words[4]);
  if (to) move_element(call, call.words[1], call.words[2], *from, *to);
}

void list_rotate(Call& call) {
  move_element(call, call.words[1], call.words[2], End::back, End::front);
}

using namespace flag;
constexpr std::array kListCommands = {
    Command{"lpush", -3, kWrite | kGrows | kFast, 1, 1, 1, list_push<End::front, false>},
    Command{"rpush", -3, kWrite | kGrows | kFast, 1, 1, 1, list_push<End::back, false>},
    Command{"lpushx", -3, kWrite | kGrows | kFast, 1, 1, 1, list_push<End::front, true>},
    Command{"rpushx", -3, kWrite | kGrows | kFast, 1, 1, 1, list_push<End::back, true>},
    Command{"lpop", -2, kWrite | kFast, 1, 1, 1, list_pop<End::front>},
    Command{"rpop", -2, kWrite | kFast, 1, 1, 1, list_pop<End::back>},
    Command{"lmpop", -4, kWrite, 0, 0, 0, list_pop_from_first},
    Command{"llen", 2, kRead | kFast, 1, 1, 1, list_length},
    Command{"lrange", 4, kRead, 1, 1, 1, list_range},
    Command{"lindex", 3, kRead, 1, 1, 1, list_index},
    Command{"lset", 4, kWrite | kGrows, 1, 1, 1, list_set},
    Command{"ltrim", 4, kWrite, 1, 1, 1, list_trim},
    Command{"lrem", 4, kWrite, 1, 1, 1, list_remove},
    Command{"linsert", 5, kWrite | kGrows, 1, 1, 1, list_insert},
    Command{"lpos", -3, kRead, 1, 1, 1, list_position},
    Command{"lmove", 5, kWrite | kGrows, 1, 2, 1, list_move},
    Command{"rpoplpush", 3, kWrite | kGrows, 1, 2, 1, list_rotate},
};

}  // namespace

std::optional<List::End> list_end(Call& call, std::string_view word) {
  if (is_word(word, "left")) return End::front;
  if (is_word(word, "right")) return End::back;
  call.reply.error(kSyntax);
  return std::nullopt;
}

std::optional<ListPopOptions> list_pop_options(Call& call, std::size_t at) {
  const auto numbered = numbered_keys(call, at);
  if (!numbered) return std::nullopt;
  if (numbered->next == call.words.size()) {
    call.reply.error(kSyntax);
    return std::nullopt;
  }
  const auto end = list_end(call, call.words[numbered->next]);
  if (!end) return std::nullopt;
  const auto count = pop_count(call, numbered->next + 1);
  if (!count) return std::nullopt;
  return ListPopOptions{numbered->keys, *end, *count};
}

void pop_elements(Call& call, std::string_view key, List& list, End end, std::size_t count) {
  call.reply.array(2);
  call.reply.bulk(key);
  pop_many(call, key, list, end, count);
}

bool move_element(Call& call, std::string_view from_key, std::string_view to_key, End from_end, End to_end) {
  List *from = nullptr, *to = nullptr;
  if (!find_collection(call, from_key, from)) return true;
  if (from == nullptr) return call.reply.null(), false;
  if (!find_collection(call, to_key, to)) return true;
  const std::string element = from->pop(from_end);
  if (from == to) {
    from->push(to_end, element);
    call.changed(from_key);
  } else {
    finish_change(call, from_key);
    get_or_create<List>(call, to_key).push(to_end, element);
    call.changed(to_key);
  }
  call.reply.bulk(element);
  return true;
}

std::span<const Command> list_commands() {
  return kListCommands;
}

}  // namespace rdmc::kv

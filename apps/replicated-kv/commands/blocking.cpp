// The commands that wait until a key has elements. A command that finds none says for which keys it waits
// (Call::waits_for). When one of them gets elements, the command is executed again for this key alone.
#include "apps/replicated-kv/commands/blocking.hpp"

#include <array>
#include <cmath>

#include "apps/replicated-kv/commands/list_options.hpp"
#include "apps/replicated-kv/commands/sorted_set_options.hpp"

namespace rdmc::kv {

namespace {

/// Checks the time, and replies with an error if it is wrong.
bool check_wait(Call& call) {
  const auto wait = longest_wait(call.words);
  if (!wait) call.reply.error(wait.error());
  return wait.has_value();
}

/// Calls `serve(key, collection)` for the first key that has elements. Otherwise the command waits, or
/// replies that there is nothing.
template <typename Kind, typename Serve>
void serve_first(Call& call, Arguments keys, const Serve& serve) {
  for (const std::string_view key : keys) {
    Kind* found = nullptr;
    if (call.ready_key) {
      // A key with another type is not what the command waits for.
      const Database::Entry* const entry = call.find(key);
      if (key != *call.ready_key || entry == nullptr || entry->value.type() != Kind::kType) continue;
    }
    if (!find_collection(call, key, found)) return;
    if (found != nullptr) return serve(key, *found);
  }
  if (call.may_wait)
    call.waits_for = keys;
  else
    call.reply.null_array();
}

template <List::End end>
void list_pop_waiting(Call& call) {
  if (!check_wait(call)) return;
  serve_first<List>(call, call.words.subspan(1, call.words.size() - 2),
                    [&](std::string_view key, List& list) {
                      call.reply.array(2);
                      call.reply.bulk(key);
                      call.reply.bulk(list.pop(end));
                      finish_change(call, key);
                    });
}

void list_pop_many_waiting(Call& call) {
  const auto options = list_pop_options(call, 2);
  if (!options || !check_wait(call)) return;
  serve_first<List>(call, options->keys, [&](std::string_view key, List& list) {
    pop_elements(call, key, list, options->end, options->count);
  });
}

void move_waiting(Call& call, List::End from_end, List::End to_end) {
  const Arguments source = call.words.subspan(1, 1);
  if (!call.may_wait && call.find(source[0]) == nullptr) return call.reply.null();
  serve_first<List>(call, source, [&](std::string_view key, List&) {
    move_element(call, key, call.words[2], from_end, to_end);
  });
}

void list_move_waiting(Call& call) {
  const auto from = list_end(call, call.words[3]);
  if (!from) return;
  const auto to = list_end(call, call.words[4]);
  if (to && check_wait(call)) move_waiting(call, *from, *to);
}

void list_rotate_waiting(Call& call) {
  if (check_wait(call)) move_waiting(call, List::End::back, List::End::front);
}

template <SortedSetEnd end>
void sorted_set_pop_waiting(Call& call) {
  if (!check_wait(call)) return;
  const auto keys = call.words.subspan(1, call.words.size() - 2);
  serve_first<SortedSet>(call, keys, [&](std::string_view key, SortedSet& set) {
    call.reply.array(3);
    call.reply.bulk(key);
    pop_members(call, key, set, end, 1, [&](const SortedSet::Member& member) {
      call.reply.bulk(member.name);
      call.reply.real(member.score);
    });
  });
}

void sorted_set_pop_many_waiting(Call& call) {
  const auto options = sorted_set_pop_options(call, 2);
  if (!options || !check_wait(call)) return;
  serve_first<SortedSet>(call, options->keys, [&](std::string_view key, SortedSet& set) {
    pop_members_reply(call, key, set, options->end, options->count);
  });
}

using namespace flag;
constexpr std::array kBlockingCommands = {
    Command{"blpop", -3, kWrite | kWaits, 1, -2, 1, list_pop_waiting<List::End::front>},
    Command{"brpop", -3, kWrite | kWaits, 1, -2, 1, list_pop_waiting<List::End::back>},
    Command{"blmpop", -5, kWrite | kWaits, 0, 0, 0, list_pop_many_waiting},
    Command{"blmove", 6, kWrite | kGrows | kWaits, 1, 2, 1, list_move_waiting},
    Command{"brpoplpush", 4, kWrite | kGrows | kWaits, 1, 2, 1, list_rotate_waiting},
    Command{"bzpopmin", -3, kWrite | kFast | kWaits, 1, -2, 1, sorted_set_pop_waiting<SortedSetEnd::least>},
    Command{"bzpopmax", -3, kWrite | kFast | kWaits, 1, -2, 1,
            sorted_set_pop_waiting<SortedSetEnd::greatest>},
    Command{"bzmpop", -5, kWrite | kWaits, 0, 0, 0, sorted_set_pop_many_waiting},
};

}  // namespace

std::expected<Milliseconds, std::string_view> longest_wait(Arguments words) {
  const bool is_first = is_word(words[0], "blmpop") || is_word(words[0], "bzmpop");
  const auto seconds = to_long_real(is_first ? words[1] : words.back());
  if (!seconds) return std::unexpected("ERR timeout is not a float or out of range");
  // The end of the wait must be a time, too.
  const long double milliseconds = std::ceil(*seconds * 1000);
  if (milliseconds > static_cast<long double>(INT64_MAX / 2))
    return std::unexpected("ERR timeout is out of range");
  if (milliseconds < 0) return std::unexpected("ERR timeout is negative");
  return static_cast<Milliseconds>(milliseconds);
}

std::span<const Command> blocking_commands() {
  return kBlockingCommands;
}

}  // namespace rdmc::kv

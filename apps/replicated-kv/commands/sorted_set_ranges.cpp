// The commands of sorted sets that concern ranges: by rank, by score, or by member where all scores are
// equal.
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "apps/replicated-kv/commands/sorted_set_options.hpp"

namespace rdmc::kv {

namespace {

enum class RangeKind : std::uint8_t { any, rank, score, name };
enum class Direction : std::uint8_t { any, forward, reverse };

/// The ranks of the members between two ends. `is_below(member)` says that a member is before the range, and
/// `is_within(member)` that it is not after it.
template <typename IsBelow, typename IsWithin>
Slice ranks_between(const SortedSet& set, const IsBelow& is_below, const IsWithin& is_within) {
  const std::size_t first = set.count_before(is_below), end = set.count_before(is_within);
  return first < end ? Slice{first, end - first} : Slice{};
}

/// An end of a range of scores: "5" or "(5".
struct ScoreBound {
  double score;
  bool is_open;
};

std::optional<ScoreBound> score_bound(std::string_view word) {
  const bool is_open = word.starts_with('(');
  const std::string text(is_open ? word.substr(1) : word);
  char* end = nullptr;
  const double score = std::strtod(text.c_str(), &end);
  if (*end != '\0' || std::isnan(score)) return std::nullopt;
  return ScoreBound{score, is_open};
}

/// An end of a range of members: "-", "+", "[x" or "(x".
struct NameBound {
  enum class Kind : std::uint8_t { lowest, highest, closed, open } kind;
  std::string_view name;

  /// True if the member is before a range that begins here.
  bool is_above(std::string_view member) const {
    return kind == Kind::highest || (kind == Kind::closed && member < name) ||
           (kind == Kind::open && member <= name);
  }
  /// True if the member is not after a range that ends here.
  bool is_not_below(std::string_view member) const {
    return kind == Kind::highest || (kind == Kind::closed && member <= name) ||
           (kind == Kind::open && member < name);
  }
};

std::optional<NameBound> name_bound(std::string_view word) {
  using Kind = NameBound::Kind;
  if (word == "-") return NameBound{Kind::lowest, {}};
  if (word == "+") return NameBound{Kind::highest, {}};
  if (word.starts_with('[')) return NameBound{Kind::closed, word.substr(1)};
  if (word.starts_with('(')) return NameBound{Kind::open, word.substr(1)};
  return std::nullopt;
}

/// A range that words have named. It gives the ranks in a sorted set.
using Range = std::function<Slice(const SortedSet&)>;

/// Returns null after an error reply.
Range range_of(Call& call, RangeKind kind, std::string_view least, std::string_view most) {
  if (kind == RangeKind::score) {
    const auto low = score_bound(least), high = score_bound(most);
    if (low && high)
      return [low = *low, high = *high](const SortedSet& set) {
        return ranks_between(
            set,
            [&](const SortedSet::Member& one) {
              return low.is_open ? one.score <= low.score : one.score < low.score;
            },
            [&](const SortedSet::Member& one) {
              return high.is_open ? one.score < high.score : one.score <= high.score;
            });
      };
    call.reply.error("ERR min or max is not a float");
    return {};
  }
  if (kind == RangeKind::name) {
    const auto low = name_bound(least), high = name_bound(most);
    if (low && high)
      return [low = *low, high = *high](const SortedSet& set) {
        return ranks_between(
            set, [&](const SortedSet::Member& one) { return low.is_above(one.name); },
            [&](const SortedSet::Member& one) { return high.is_not_below(one.name); });
      };
    call.reply.error("ERR min or max not valid string range item");
    return {};
  }
  const auto first = integer(call, least);
  if (!first) return {};
  const auto last = integer(call, most);
  if (!last) return {};
  return [first = *first, last = *last](const SortedSet& set) { return slice_of(first, last, set.size()); };
}

struct RangeOptions {
  RangeKind kind;
  Direction direction;
  bool has_scores = false;
  std::int64_t offset = 0, limit = -1;
};

/// Reads the options from the word `at` on.
bool read_options(Call& call, std::size_t at, bool is_stored, RangeOptions& options) {
  const auto fail = [&](std::string_view error) {
    call.reply.error(error);
    return false;
  };
  for (; at < call.words.size(); ++at) {
    const std::string_view word = call.words[at];
    if (!is_stored && is_word(word, "withscores")) {
      options.has_scores = true;
    } else if (is_word(word, "limit") && at + 2 < call.words.size()) {
      const auto offset = integer(call, call.words[at + 1]);
      if (!offset) return false;
      const auto limit = integer(call, call.words[at + 2]);
      if (!limit) return false;
      options.offset = *offset;
      options.limit = *limit;
      at += 2;
    } else if (options.direction == Direction::any && is_word(word, "rev")) {
      options.direction = Direction::reverse;
    } else if (options.kind == RangeKind::any && is_word(word, "bylex")) {
      options.kind = RangeKind::name;
    } else if (options.kind == RangeKind::any && is_word(word, "byscore")) {
      options.kind = RangeKind::score;
    } else {
      return fail(kSyntax);
    }
  }
  if (options.direction == Direction::any) options.direction = Direction::forward;
  if (options.kind == RangeKind::any) options.kind = RangeKind::rank;
  if (options.limit != -1 && options.kind == RangeKind::rank)
    return fail("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX");
  if (options.has_scores && options.kind == RangeKind::name)
    return fail("ERR syntax error, WITHSCORES not supported in combination with BYLEX");
  return true;
}

/// The key of the source is the word `at`.
void reply_range(Call& call, std::size_t at, bool is_stored, RangeOptions options) {
  if (!read_options(call, at + 3, is_stored, options)) return;
  const bool is_reversed = options.direction == Direction::reverse;
  const bool by_rank = options.kind == RangeKind::rank;
  std::string_view least = call.words[at + 1], most = call.words[at + 2];
  if (is_reversed && !by_rank) std::swap(least, most);
  const Range range = range_of(call, options.kind, least, most);
  SortedSet* set = nullptr;
  if (!range || !find_collection(call, call.words[at], set)) return;
  Slice slice = set == nullptr ? Slice{} : range(*set);
  std::size_t first = slice.first;
  if (slice.count > 0 && is_reversed)
    first = by_rank ? set->size() - 1 - slice.first : slice.first + slice.count - 1;
  if (!by_rank) {
    const std::size_t skipped =
        options.offset < 0 ? slice.count : std::min(slice.count, static_cast<std::size_t>(options.offset));
    slice.count -= skipped;
    first = is_reversed ? first - skipped : first + skipped;
    if (options.limit >= 0) slice.count = std::min(slice.count, static_cast<std::size_t>(options.limit));
  }
  if (!is_stored) {
    const MemberReply reply(call, slice.count, options.has_scores);
    if (slice.count > 0) set->visit(first, slice.count, is_reversed, reply);
    return;
  }
  auto result = std::make_unique<SortedSet>(call.databases.shared());
  if (slice.count > 0)
    set->visit(first, slice.count, is_reversed,
               [&](const SortedSet::Member& member) { result->set(member.name, member.score); });
  store(call, call.words[1], std::move(result));
  reply_count(call, slice.count);
}

template <RangeKind kind, Direction direction>
void sorted_set_range(Call& call) {
  reply_range(call, 1, false, {kind, direction});
}

void sorted_set_range_store(Call& call) {
  reply_range(call, 2, true, {RangeKind::any, Direction::any});
}

template <RangeKind kind>
void sorted_set_count(Call& call) {
  const Range range = range_of(call, kind, call.words[2], call.words[3]);
  SortedSet* set = nullptr;
  if (range && find_collection(call, call.words[1], set))
    reply_count(call, set == nullptr ? 0 : range(*set).count);
}

template <RangeKind kind>
void sorted_set_remove_range(Call& call) {
  const Range range = range_of(call, kind, call.words[2], call.words[3]);
  SortedSet* set = nullptr;
  if (!range || !find_collection(call, call.words[1], set)) return;
  const Slice slice = set == nullptr ? Slice{} : range(*set);
  std::vector<std::string> names;
  if (slice.count > 0)
    set->visit(slice.first, slice.count, false,
               [&](const SortedSet::Member& member) { names.emplace_back(member.name); });
  for (const std::string& name : names) set->erase(name);
  if (!names.empty()) finish_change(call, call.words[1]);
  reply_count(call, names.size());
}

using namespace flag;
constexpr auto kForward = Direction::forward, kReverse = Direction::reverse;
constexpr std::array kSortedSetRangeCommands = {
    Command{"zrange", -4, kRead, 1, 1, 1, sorted_set_range<RangeKind::any, Direction::any>},
    Command{"zrevrange", -4, kRead, 1, 1, 1, sorted_set_range<RangeKind::rank, kReverse>},
    Command{"zrangebyscore", -4, kRead, 1, 1, 1, sorted_set_range<RangeKind::score, kForward>},
    Command{"zrevrangebyscore", -4, kRead, 1, 1, 1, sorted_set_range<RangeKind::score, kReverse>},
    Command{"zrangebylex", -4, kRead, 1, 1, 1, sorted_set_range<RangeKind::name, kForward>},
    Command{"zrevrangebylex", -4, kRead, 1, 1, 1, sorted_set_range<RangeKind::name, kReverse>},
    Command{"zrangestore", -5, kWrite | kGrows, 1, 2, 1, sorted_set_range_store},
    Command{"zcount", 4, kRead | kFast, 1, 1, 1, sorted_set_count<RangeKind::score>},
    Command{"zlexcount", 4, kRead | kFast, 1, 1, 1, sorted_set_count<RangeKind::name>},
    Command{"zremrangebyrank", 4, kWrite, 1, 1, 1, sorted_set_remove_range<RangeKind::rank>},
    Command{"zremrangebyscore", 4, kWrite, 1, 1, 1, sorted_set_remove_range<RangeKind::score>},
    Command{"zremrangebylex", 4, kWrite, 1, 1, 1, sorted_set_remove_range<RangeKind::name>},
};

}  // namespace

std::span<const Command> sorted_set_range_commands() {
  return kSortedSetRangeCommands;
}

}  // namespace rdmc::kv

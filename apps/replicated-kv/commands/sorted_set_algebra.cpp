// The unions, intersections and differences of sorted sets. Sets take part too: all their scores are 1.
#include <algorithm>
#include <array>
#include <cmath>

#include "apps/replicated-kv/commands/sorted_set_options.hpp"
#include "apps/replicated-kv/data/set.hpp"

namespace rdmc::kv {

namespace {

enum class Algebra : std::uint8_t { intersection, union_of_all, difference };
enum class Aggregate : std::uint8_t { sum, least, greatest };

/// A set or a sorted set, or nothing.
struct Source {
  const Set* set = nullptr;
  const SortedSet* sorted_set = nullptr;
  double weight = 1;

  std::size_t size() const { return set ? set->size() : sorted_set ? sorted_set->size() : 0; }
  std::optional<double> score(std::string_view name) const {
    if (sorted_set != nullptr) return sorted_set->score(name);
    return set != nullptr && set->contains(name) ? std::optional(1.0) : std::nullopt;
  }
  /// Calls `visitor(name, score)` for each member.
  template <typename Visitor>
  void visit(const Visitor& visitor) const {
    if (set != nullptr) set->visit([&](std::string_view name) { return visitor(name, 1.0), true; });
    if (sorted_set != nullptr)
      sorted_set->visit(0, sorted_set->size(), false,
                        [&](const SortedSet::Member& member) { visitor(member.name, member.score); });
  }
};

/// The product of an infinite score and the weight 0 is 0.
double weighted(const Source& source, double score) {
  const double product = source.weight * score;
  return std::isnan(product) ? 0 : product;
}

double combine(Aggregate aggregate, double a, double b) {
  switch (aggregate) {
    case Aggregate::least: return std::min(a, b);
    case Aggregate::greatest: return std::max(a, b);
    case Aggregate::sum: break;
  }
  // The sum of both infinities is 0.
  return std::isnan(a + b) ? 0 : a + b;
}

struct AlgebraOptions {
  std::vector<Source> sources;
  Aggregate aggregate = Aggregate::sum;
  bool has_scores = false;
  std::int64_t limit = 0;
};

bool find_sources(Call& call, Arguments keys, std::vector<Source>& sources) {
  for (const std::string_view key : keys) {
    Source& source = sources.emplace_back();
    Database::Entry* const entry = call.find(key);
    if (entry == nullptr) continue;
    if (entry->value.type() == Type::set) {
      source.set = static_cast<Set*>(entry->value.collection());
    } else if (entry->value.type() == Type::sorted_set) {
      source.sorted_set = static_cast<SortedSet*>(entry->value.collection());
    } else {
      call.reply.error(kWrongType);
      return false;
    }
  }
  return true;
}

/// Reads the number of keys at the word `at`, and what follows.
std::optional<AlgebraOptions> algebra_options(Call& call, std::size_t at, Algebra algebra, bool is_stored,
                                              bool only_counts) {
  const auto fail = [&](std::string_view error) {
    call.reply.error(error);
    return std::nullopt;
  };
  const auto number = integer(call, call.words[at]);
  if (!number) return std::nullopt;
  if (*number < 1)
    return fail("ERR at least 1 input key is needed for '" + to_lower(call.words[0]) + "' command");
  const auto count = static_cast<std::size_t>(*number);
  if (count > call.words.size() - at - 1) return fail(kSyntax);
  AlgebraOptions options;
  if (!find_sources(call, call.words.subspan(at + 1, count), options.sources)) return std::nullopt;
  const bool may_weigh = algebra != Algebra::difference && !only_counts;
  for (std::size_t i = at + 1 + count; i < call.words.size(); ++i) {
    const std::size_t rest = call.words.size() - i - 1;
    if (may_weigh && rest >= count && is_word(call.words[i], "weights")) {
      for (Source& source : options.sources) {
        const auto weight = to_real(call.words[++i]);
        if (!weight) return fail("ERR weight value is not a float");
        source.weight = *weight;
      }
    } else if (may_weigh && rest >= 1 && is_word(call.words[i], "aggregate")) {
      ++i;
      if (is_word(call.words[i], "sum"))
        options.aggregate = Aggregate::sum;
      else if (is_word(call.words[i], "min"))
        options.aggregate = Aggregate::least;
      else if (is_word(call.words[i], "max"))
        options.aggregate = Aggregate::greatest;
      else
        return fail(kSyntax);
    } else if (!is_stored && !only_counts && is_word(call.words[i], "withscores")) {
      options.has_scores = true;
    } else if (only_counts && rest >= 1 && is_word(call.words[i], "limit")) {
      const auto limit = to_integer(call.words[++i]);
      if (!limit || *limit < 0) return fail("ERR LIMIT can't be negative");
      options.limit = *limit;
    } else {
      return fail(kSyntax);
    }
  }
  // The smallest source first: an intersection has only its members.
  if (algebra != Algebra::difference) std::ranges::stable_sort(options.sources, {}, &Source::size);
  return options;
}

/// Calls `visitor(name, score)` for each member of all sources.
template <typename Visitor>
void intersect_sources(const AlgebraOptions& options, const Visitor& visitor) {
  const auto& sources = options.sources;
  if (sources.front().size() == 0) return;
  sources.front().visit([&](std::string_view name, double score) {
    double sum = weighted(sources.front(), score);
    for (std::size_t i = 1; i < sources.size(); ++i) {
      const auto other = sources[i].score(name);
      if (!other) return;
      sum = combine(options.aggregate, sum, weighted(sources[i], *other));
    }
    visitor(name, sum);
  });
}

std::unique_ptr<SortedSet> compute(Call& call, Algebra algebra, const AlgebraOptions& options) {
  auto result = std::make_unique<SortedSet>(call.databases.shared());
  const auto& sources = options.sources;
  switch (algebra) {
    case Algebra::intersection:
      intersect_sources(options, [&](std::string_view name, double score) { result->set(name, score); });
      break;
    case Algebra::union_of_all:
      for (const Source& source : sources)
        source.visit([&](std::string_view name, double score) {
          const double part = weighted(source, score);
          const auto known = result->score(name);
          result->set(name, known ? combine(options.aggregate, *known, part) : part);
        });
      break;
    case Algebra::difference:
      sources.front().visit([&](std::string_view name, double score) {
        for (std::size_t i = 1; i < sources.size(); ++i)
          if (sources[i].score(name)) return;
        result->set(name, score);
      });
      break;
  }
  return result;
}

template <Algebra algebra>
void sorted_set_combine(Call& call) {
  const auto options = algebra_options(call, 1, algebra, false, false);
  if (!options) return;
  const auto result = compute(call, algebra, *options);
  result->visit(0, result->size(), false, MemberReply(call, result->size(), options->has_scores));
}

template <Algebra algebra>
void sorted_set_combine_store(Call& call) {
  const auto options = algebra_options(call, 2, algebra, true, false);
  if (!options) return;
  auto result = compute(call, algebra, *options);
  const std::size_t size = result->size();
  store(call, call.words[1], std::move(result));
  reply_count(call, size);
}

void sorted_set_intersection_size(Call& call) {
  const auto options = algebra_options(call, 1, Algebra::intersection, false, true);
  if (!options) return;
  std::int64_t size = 0;
  intersect_sources(*options, [&](std::string_view, double) { ++size; });
  call.reply.integer(options->limit == 0 ? size : std::min(size, options->limit));
}

using namespace flag;
constexpr std::array kSortedSetAlgebraCommands = {
    Command{"zunion", -3, kRead, 0, 0, 0, sorted_set_combine<Algebra::union_of_all>},
    Command{"zinter", -3, kRead, 0, 0, 0, sorted_set_combine<Algebra::intersection>},
    Command{"zdiff", -3, kRead, 0, 0, 0, sorted_set_combine<Algebra::difference>},
    Command{"zunionstore", -4, kWrite | kGrows, 1, 1, 1, sorted_set_combine_store<Algebra::union_of_all>},
    Command{"zinterstore", -4, kWrite | kGrows, 1, 1, 1, sorted_set_combine_store<Algebra::intersection>},
    Command{"zdiffstore", -4, kWrite | kGrows, 1, 1, 1, sorted_set_combine_store<Algebra::difference>},
    Command{"zintercard", -3, kRead, 0, 0, 0, sorted_set_intersection_size},
};

}  // namespace

std::span<const Command> sorted_set_algebra_commands() {
  return kSortedSetAlgebraCommands;
}

}  // namespace rdmc::kv

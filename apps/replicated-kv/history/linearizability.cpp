#include "apps/replicated-kv/history/linearizability.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <unordered_set>
#include <utility>

namespace rdmc::kv {

namespace {

using State = std::map<std::string, std::string>;

/// Executes a step. Returns false if its reply cannot be the one that was got.
bool apply(const Step& step, State& state) {
  std::string& value = state[step.key];
  std::string reply;
  switch (step.kind) {
    case Step::Kind::get: reply = value; break;
    case Step::Kind::set:
      value = step.value;
      reply = "OK";
      break;
    case Step::Kind::append:
      value += step.value;
      reply = std::to_string(value.size());
      break;
    case Step::Kind::incr:
      value = std::to_string((value.empty() ? 0 : std::stoll(value)) + 1);
      reply = value;
      break;
  }
  return !step.reply || *step.reply == reply;
}

bool apply(const Operation& operation, State& state) {
  return std::ranges::all_of(operation.steps, [&](const Step& step) { return apply(step, state); });
}

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

/// A state of the search: the operations that have been put into the order, and the values after them. Two
/// different ones have the same 128 bits with a negligible probability.
struct Seen {
  std::uint64_t operations, values;
  friend bool operator==(const Seen&, const Seen&) = default;
};
struct SeenHash {
  std::size_t operator()(const Seen& seen) const { return seen.operations ^ mix(seen.values); }
};

std::uint64_t hash_of(const State& state) {
  std::uint64_t hash = 0;
  for (const auto& [key, value] : state)
    if (!value.empty()) hash += mix(std::hash<std::string>()(key) ^ mix(std::hash<std::string>()(value) + 1));
  return hash;
}

/// The search for one set of keys.
class Search {
 public:
  explicit Search(std::vector<const Operation*> operations) : operations_(std::move(operations)) {
    std::ranges::stable_sort(operations_, {}, &Operation::called);
    const std::size_t count = operations_.size();
    earlier_.resize(count, kNone);
    std::map<std::uint64_t, std::size_t> last_of;
    for (std::size_t i = 0; i < count; ++i) {
      if (!operations_[i]->is_certain || operations_[i]->connection == 0) continue;
      const auto [last, is_first] = last_of.emplace(operations_[i]->connection, i);
      if (!is_first) earlier_[i] = std::exchange(last->second, i);
    }
    is_chosen_.resize(count);
    // The events: the beginning of operation i is 2i, its end 2i + 1. Their order is a list with a head.
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < count; ++i) {
      order.push_back(2 * i);
      if (operations_[i]->is_certain) order.push_back(2 * i + 1);
      certain_ += operations_[i]->is_certain;
    }
    // An operation that begins when another one ends may still come before it.
    std::ranges::stable_sort(order, {}, [&](std::size_t event) {
      const Operation& one = *operations_[event / 2];
      return event % 2 == 0 ? std::pair(one.called, 0) : std::pair(one.returned, 1);
    });
    next_.resize(2 * count + 1);
    before_.resize(2 * count + 1);
    std::size_t last = head();
    for (const std::size_t event : order) {
      next_[last] = event;
      before_[event] = last;
      last = event;
    }
    next_[last] = head();
    before_[head()] = last;
  }

  Result<void> run(std::size_t most_states) {
    // Uncertain operations are tried after all certain ones, because most of them explain nothing.
    bool tries_certain = true;
    std::size_t event = next_[head()];
    while (certain_ > 0) {
      if (event != head() && event % 2 == 0) {
        const std::size_t index = event / 2;
        if (operations_[index]->is_certain == tries_certain && choose(index)) {
          if (seen_.size() > most_states)
            return fail(Errc::resource_limit,
                        "the history has too many possible orders to check:" + failure_);
          tries_certain = true;
          event = next_[head()];
        } else {
          event = next_[event];
        }
        continue;
      }
      // An operation ends here that has no place in the order so far.
      if (std::exchange(tries_certain, false)) {
        event = next_[head()];
        continue;
      }
      note_failure(event);
      // A certain read that fits changes nothing, so another place for it leads to nothing else.
      bool was_read = true;
      while (was_read) {
        if (chosen_.empty()) return fail(Errc::corrupt, "no order explains these replies:" + failure_);
        Choice choice = std::move(chosen_.back());
        chosen_.pop_back();
        put_back(choice.index);
        state_ = std::move(choice.before);
        set_ = choice.set;
        loose_ = std::move(choice.loose);
        event = next_[2 * choice.index];
        tries_certain = operations_[choice.index]->is_certain;
        was_read = is_read(*operations_[choice.index]);
      }
    }
    return {};
  }

 private:
  struct Choice {
    std::size_t index;
    State before;
    std::uint64_t set;
    std::vector<std::size_t> loose;
  };
  static constexpr std::size_t kNone = SIZE_MAX;
  static bool is_read(const Operation& operation) {
    return operation.is_certain && std::ranges::all_of(operation.steps, [](const Step& step) {
             return step.kind == Step::Kind::get;
           });
  }
  bool has_its_turn(std::size_t index) const {
    return earlier_[index] == kNone || is_chosen_[earlier_[index]];
  }
  /// True if the two operations cannot change places: one of them writes what the other one uses.
  bool conflict(std::size_t a, std::size_t b) const {
    return std::ranges::any_of(operations_[a]->steps, [&](const Step& one) {
      return std::ranges::any_of(operations_[b]->steps, [&](const Step& other) {
        return one.key == other.key && (one.kind != Step::Kind::get || other.kind != Step::Kind::get);
      });
    });
  }
  /// True if nothing of what `earlier` writes can be seen after the operation, which does not see it either.
  bool overwrites(std::size_t index, std::size_t earlier) const {
    const auto& steps = operations_[index]->steps;
    return std::ranges::all_of(operations_[earlier]->steps, [&](const Step& step) {
      if (step.kind == Step::Kind::get) return true;
      const auto first = std::ranges::find(steps, step.key, &Step::key);
      return first != steps.end() && first->kind == Step::Kind::set;
    });
  }
  /// An uncertain operation can take a later place, until an operation follows that conflicts with it, and
  /// can be left out if there is none. So uncertain operations are needed only before operations that
  /// conflict with them. Returns the uncertain operations that have no such operation after this one, or
  /// nullopt if this one may not follow them.
  std::optional<std::vector<std::size_t>> loose_after(std::size_t index) const {
    std::vector<std::size_t> loose;
    for (const std::size_t earlier : loose_) {
      if (overwrites(index, earlier)) return std::nullopt;
      if (!conflict(index, earlier)) loose.push_back(earlier);
    }
    if (operations_[index]->is_certain) return loose.empty() ? std::optional(loose) : std::nullopt;
    loose.push_back(index);
    return loose;
  }
  std::size_t head() const { return 2 * operations_.size(); }

  /// Puts the operation at the end of the order, if its replies fit and this leads to a new state of the
  /// search.
  bool choose(std::size_t index) {
    if (!has_its_turn(index)) return false;
    const auto loose = loose_after(index);
    if (!loose) return false;
    State tried = state_;
    if (!apply(*operations_[index], tried) || !remember(index, tried, *loose)) return false;
    chosen_.push_back({index, std::exchange(state_, std::move(tried)), set_, std::exchange(loose_, *loose)});
    set_ ^= mix(index + 1);
    take_out(index);
    return true;
  }
  bool remember(std::size_t index, const State& state, const std::vector<std::size_t>& loose) {
    std::uint64_t set = set_ ^ mix(index + 1);
    for (const std::size_t one : loose) set ^= mix(~std::uint64_t{one});
    return seen_.insert({set, hash_of(state)}).second;
  }
  void unlink(std::size_t event) {
    next_[before_[event]] = next_[event];
    before_[next_[event]] = before_[event];
  }
  void relink(std::size_t event) { next_[before_[event]] = before_[next_[event]] = event; }
  void take_out(std::size_t index) {
    is_chosen_[index] = true;
    unlink(2 * index);
    if (!operations_[index]->is_certain) return;
    unlink(2 * index + 1);
    --certain_;
  }
  void put_back(std::size_t index) {
    is_chosen_[index] = false;
    if (operations_[index]->is_certain) {
      relink(2 * index + 1);
      ++certain_;
    }
    relink(2 * index);
  }

  /// Describes the longest order that was found, for people.
  void note_failure(std::size_t event) {
    if (!failure_.empty() && chosen_.size() <= longest_) return;
    longest_ = chosen_.size();
    failure_.clear();
    constexpr std::size_t kShown = 4;
    for (std::size_t i = chosen_.size() - std::min(kShown, chosen_.size()); i < chosen_.size(); ++i)
      failure_ += "\n  before: " + to_string(*operations_[chosen_[i].index]);
    for (std::size_t at = next_[head()]; at != head() && at != event; at = next_[at])
      if (at % 2 == 0) failure_ += "\n  at the same time: " + to_string(*operations_[at / 2]);
    if (event != head()) failure_ += "\n  has no place: " + to_string(*operations_[event / 2]);
  }

  std::vector<const Operation*> operations_;
  std::vector<std::size_t> next_, before_;
  std::vector<std::size_t> earlier_;  // the operation before it on its connection
  std::vector<bool> is_chosen_;
  std::vector<Choice> chosen_;
  State state_;
  std::uint64_t set_ = 0;           // of the chosen operations
  std::vector<std::size_t> loose_;  // chosen uncertain operations without a conflict after them
  std::size_t certain_ = 0;         // the number of certain operations that are not chosen
  std::unordered_set<Seen, SeenHash> seen_;
  std::size_t longest_ = 0;
  std::string failure_;
};

/// Sets of keys that no operation connects.
class KeySets {
 public:
  std::size_t of(const std::string& key) {
    const auto [known, is_new] = numbers_.emplace(key, parents_.size());
    if (is_new) parents_.push_back(parents_.size());
    return root(known->second);
  }
  void join(std::size_t a, std::size_t b) { parents_[root(a)] = root(b); }
  std::size_t root(std::size_t set) {
    while (parents_[set] != set) set = parents_[set] = parents_[parents_[set]];
    return set;
  }

 private:
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::size_t> parents_;
};

}  // namespace

std::string to_string(const Operation& operation) {
  constexpr const char* kNames[] = {"get", "set", "append", "incr"};
  std::string text = std::to_string(operation.called) + " to " +
                     (operation.is_certain ? std::to_string(operation.returned) : "?");
  for (const Step& step : operation.steps) {
    text += std::string("  ") + kNames[static_cast<std::size_t>(step.kind)] + " " + step.key;
    if (!step.value.empty()) text += " " + step.value;
    if (step.reply) text += " -> " + *step.reply;
  }
  return text;
}

Result<void> check_linearizable(const std::vector<Operation>& history, std::size_t most_states) {
  KeySets sets;
  for (const Operation& operation : history)
    for (const Step& step : operation.steps)
      sets.join(sets.of(step.key), sets.of(operation.steps.front().key));
  std::map<std::size_t, std::vector<const Operation*>> parts;
  for (const Operation& operation : history)
    if (!operation.steps.empty()) parts[sets.of(operation.steps.front().key)].push_back(&operation);
  for (auto& [set, operations] : parts)
    if (auto checked = Search(std::move(operations)).run(most_states); !checked) return checked;
  return {};
}

}  // namespace rdmc::kv

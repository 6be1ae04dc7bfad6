// The commands of strings and counters.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <vector>

#include "apps/replicated-kv/commands/arguments.hpp"

namespace rdmc::kv {

namespace {

void reply_text(Call& call, const Text* text) {
  text == nullptr ? call.reply.null() : call.reply.bulk(*text);
}

void get(Call& call) {
  Text* text = nullptr;
  if (find_text(call, call.words[1], text)) reply_text(call, text);
}

// -- SET and its relatives --

struct ExpiryOption {
  std::string_view word;
  TimeFormat format;
};
constexpr std::array<ExpiryOption, 4> kExpiryOptions{
    {{"ex", {true, true}}, {"px", {false, true}}, {"exat", {true, false}}, {"pxat", {false, false}}}};

struct SetOptions {
  bool only_new = false, only_existing = false, keeps_deadline = false, returns_old = false, persists = false;
  std::optional<TimeFormat> format;
  std::string_view time;
};

/// Reads the options of SET (`is_set`) or GETEX from the word `at` on.
std::optional<SetOptions> set_options(Call& call, std::size_t at, bool is_set) {
  SetOptions options;
  const auto& words = call.words;
  for (; at < words.size(); ++at) {
    const bool chooses_deadline = options.format || options.keeps_deadline || options.persists;
    const auto expiry =
        std::ranges::find_if(kExpiryOptions, [&](const auto& one) { return is_word(words[at], one.word); });
    if (expiry != kExpiryOptions.end() && !chooses_deadline && at + 1 < words.size()) {
      options.format = expiry->format;
      options.time = words[++at];
    } else if (is_set && is_word(words[at], "nx") && !options.only_existing) {
      options.only_new = true;
    } else if (is_set && is_word(words[at], "xx") && !options.only_new) {
      options.only_existing = true;
    } else if (is_set && is_word(words[at], "get")) {
      options.returns_old = true;
    } else if (is_set && is_word(words[at], "keepttl") && !chooses_deadline) {
      options.keeps_deadline = true;
    } else if (!is_set && is_word(words[at], "persist") && !chooses_deadline) {
      options.persists = true;
    } else {
      call.reply.error(kSyntax);
      return std::nullopt;
    }
  }
  return options;
}

/// Returns the deadline that the options name, or INT64_MAX for none, or nullopt after an error reply.
std::optional<Milliseconds> deadline_of(Call& call, const SetOptions& options) {
  if (!options.format) return INT64_MAX;
  const auto number = integer(call, options.time);
  return number ? kv::deadline_of(call, *number, *options.format, true) : std::nullopt;
}

/// Gives the key a deadline. The key is removed if the deadline has come.
void expire_at(Call& call, Database::Entry& entry, Milliseconds deadline) {
  if (deadline <= call.now) return call.erase(entry);
  call.db().set_deadline(entry, deadline);
  call.changed(entry.key());
}

void set(Call& call) {
  const auto options = set_options(call, 3, true);
  if (!options) return;
  const auto deadline = deadline_of(call, *options);
  if (!deadline) return;
  Database::Entry* const entry = call.find(call.words[1]);
  if (options->returns_old) {
    if (entry != nullptr && entry->value.text() == nullptr) return call.reply.error(kWrongType);
    reply_text(call, entry == nullptr ? nullptr : entry->value.text());
  }
  if ((options->only_new && entry != nullptr) || (options->only_existing && entry == nullptr)) {
    if (!options->returns_old) call.reply.null();
    return;
  }
  set_text(call, call.words[1], call.words[2], options->keeps_deadline);
  if (options->format) expire_at(call, *call.find(call.words[1]), *deadline);
  if (!options->returns_old) call.reply.ok();
}

void setnx(Call& call) {
  const bool is_new = call.find(call.words[1]) == nullptr;
  if (is_new) set_text(call, call.words[1], call.words[2]);
  call.reply.integer(is_new ? 1 : 0);
}

template <bool is_seconds>
void setex(Call& call) {
  const auto number = integer(call, call.words[2]);
  if (!number) return;
  const auto deadline = kv::deadline_of(call, *number, {is_seconds, true}, true);
  if (!deadline) return;
  set_text(call, call.words[1], call.words[3]);
  expire_at(call, *call.find(call.words[1]), *deadline);
  call.reply.ok();
}

void getset(Call& call) {
  Text* text = nullptr;
  if (!find_text(call, call.words[1], text)) return;
  reply_text(call, text);
  set_text(call, call.words[1], call.words[2]);
}

void getdel(Call& call) {
  Text* text = nullptr;
  if (!find_text(call, call.words[1], text)) return;
  reply_text(call, text);
  if (text != nullptr) call.erase(*call.find(call.words[1]));
}

void getex(Call& call) {
  const auto options = set_options(call, 2, false);
  if (!options) return;
  const auto deadline = deadline_of(call, *options);
  if (!deadline) return;
  Text* text = nullptr;
  if (!find_text(call, call.words[1], text)) return;
  reply_text(call, text);
  if (text == nullptr) return;
  Database::Entry& entry = *call.find(call.words[1]);
  if (options->format)
    expire_at(call, entry, *deadline);
  else if (options->persists && call.db().remove_deadline(entry))
    call.changed(entry.key());
}

void mget(Call& call) {
  call.reply.array(call.words.size() - 1);
  for (const std::string_view key : call.words.subspan(1)) {
    Database::Entry* const entry = call.find(key);
    reply_text(call, entry == nullptr ? nullptr : entry->value.text());
  }
}

template <bool only_new>
void mset(Call& call) {
  if (call.words.size() % 2 == 0)
    return call.reply.error("ERR wrong number of arguments for '" + to_lower(call.words[0]) + "' command");
  if (only_new)
    for (std::size_t i = 1; i < call.words.size(); i += 2)
      if (call.find(call.words[i]) != nullptr) return call.reply.integer(0);
  for (std::size_t i = 1; i < call.words.size(); i += 2) set_text(call, call.words[i], call.words[i + 1]);
  only_new ? call.reply.integer(1) : call.reply.ok();
}

// -- Parts of a string --

void strlen(Call& call) {
  Text* text = nullptr;
  if (find_text(call, call.words[1], text))
    call.reply.integer(text == nullptr ? 0 : static_cast<std::int64_t>(text->size()));
}

void append(Call& call) {
  Text* text = nullptr;
  if (!find_text(call, call.words[1], text)) return;
  if ((text == nullptr ? 0 : text->size()) + call.words[2].size() > kMostTextBytes)
    return call.reply.error(kTooLong);
  if (text == nullptr) {
    set_text(call, call.words[1], call.words[2]);
    return call.reply.integer(static_cast<std::int64_t>(call.words[2].size()));
  }
  text->append(call.databases.memory(), call.words[2]);
  call.find(call.words[1])->value.has_grown = true;
  call.changed(call.words[1]);
  call.reply.integer(static_cast<std::int64_t>(text->size()));
}

void setrange(Call& call) {
  const auto offset = integer(call, call.words[2]);
  if (!offset) return;
  if (*offset < 0) return call.reply.error("ERR offset is out of range");
  Text* text = nullptr;
  if (!find_text(call, call.words[1], text)) return;
  const std::string_view bytes = call.words[3];
  const std::size_t size = text == nullptr ? 0 : text->size();
  if (bytes.empty()) return call.reply.integer(static_cast<std::int64_t>(size));
  if (static_cast<std::uint64_t>(*offset) > kMostTextBytes ||
      static_cast<std::size_t>(*offset) + bytes.size() > kMostTextBytes)
    return call.reply.error(kTooLong);
  Item& item = call.get_or_insert(call.words[1]).value;
  Text& changed = *item.text();
  const std::size_t end = static_cast<std::size_t>(*offset) + bytes.size();
  if (changed.size() < end) changed.resize(call.databases.memory(), end);
  std::memcpy(changed.data() + *offset, bytes.data(), bytes.size());
  item.has_grown = true;
  call.changed(call.words[1]);
  call.reply.integer(static_cast<std::int64_t>(changed.size()));
}

void getrange(Call& call) {
  const auto first = integer(call, call.words[2]);
  if (!first) return;
  const auto last = integer(call, call.words[3]);
  if (!last) return;
  Text* text = nullptr;
  if (!find_text(call, call.words[1], text)) return;
  const auto size = static_cast<std::int64_t>(text == nullptr ? 0 : text->size());
  if (*first < 0 && *last < 0 && *first > *last) return call.reply.bulk({});
  const auto from_start = [&](std::int64_t index) {
    return std::max<std::int64_t>(index < 0 ? size + index : index, 0);
  };
  const std::int64_t begin = from_start(*first), end = std::min(from_start(*last), size - 1);
  if (begin > end || size == 0) return call.reply.bulk({});
  call.reply.bulk(std::string_view(*text).substr(static_cast<std::size_t>(begin),
                                                 static_cast<std::size_t>(end - begin + 1)));
}

// -- Counters --

void add(Call& call, std::int64_t difference) {
  Text* text = nullptr;
  if (!find_text(call, call.words[1], text)) return;
  std::int64_t number = 0;
  if (text != nullptr) {
    const auto known = integer(call, *text);
    if (!known) return;
    number = *known;
  }
  if (__builtin_add_overflow(number, difference, &number))
    return call.reply.error("ERR increment or decrement would overflow");
  std::array<char, 24> digits;
  char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  set_text(call, call.words[1], {digits.data(), end}, true);
  call.reply.integer(number);
}

template <int sign>
void incr(Call& call) {
  add(call, sign);
}

void incrby(Call& call) {
  if (const auto number = integer(call, call.words[2])) add(call, *number);
}

void decrby(Call& call) {
  const auto number = integer(call, call.words[2]);
  if (!number) return;
  if (*number == INT64_MIN) return call.reply.error("ERR decrement would overflow");
  add(call, -*number);
}

void incrbyfloat(Call& call) {
  Text* text = nullptr;
  if (!find_text(call, call.words[1], text)) return;
  const auto known = text == nullptr ? std::optional(0.0L) : to_long_real(*text);
  const auto difference = known ? to_long_real(call.words[2]) : std::nullopt;
  if (!difference) return call.reply.error(kNotAFloat);
  const long double sum = *known + *difference;
  if (std::isnan(sum) || std::isinf(sum))
    return call.reply.error("ERR increment would produce NaN or Infinity");
  const std::string digits = decimal_text(sum);
  set_text(call, call.words[1], digits, true);
  call.reply.bulk(digits);
}

// -- LCS --

struct LcsOptions {
  bool only_length = false, ranges = false, with_lengths = false;
  std::int64_t least = 0;
};

std::optional<LcsOptions> lcs_options(Call& call) {
  LcsOptions options;
  for (std::size_t i = 3; i < call.words.size(); ++i) {
    if (is_word(call.words[i], "idx")) {
      options.ranges = true;
    } else if (is_word(call.words[i], "len")) {
      options.only_length = true;
    } else if (is_word(call.words[i], "withmatchlen")) {
      options.with_lengths = true;
    } else if (is_word(call.words[i], "minmatchlen") && i + 1 < call.words.size()) {
      const auto number = integer(call, call.words[++i]);
      if (!number) return std::nullopt;
      options.least = std::max<std::int64_t>(*number, 0);
    } else {
      call.reply.error(kSyntax);
      return std::nullopt;
    }
  }
  if (options.ranges && options.only_length) {
    call.reply.error("ERR If you want both the length and indexes, please just use IDX.");
    return std::nullopt;
  }
  return options;
}

/// A common part of both strings: where it begins in each of them, and its length.
struct CommonRange {
  std::size_t a, b, size;
};

/// The table of the lengths of the longest common subsequences of all beginnings of two strings.
class LcsTable {
 public:
  LcsTable(std::string_view a, std::string_view b) : a_(a), b_(b), lengths_((a.size() + 1) * (b.size() + 1)) {
    for (std::size_t i = 1; i <= a.size(); ++i)
      for (std::size_t j = 1; j <= b.size(); ++j)
        at(i, j) = a[i - 1] == b[j - 1] ? at(i - 1, j - 1) + 1 : std::max(at(i - 1, j), at(i, j - 1));
  }
  std::size_t length() { return at(a_.size(), b_.size()); }

  /// The subsequence, and its ranges, the last one first.
  std::pair<std::string, std::vector<CommonRange>> trace() {
    std::string text;
    std::vector<CommonRange> ranges;
    for (std::size_t i = a_.size(), j = b_.size(); i > 0 && j > 0;) {
      if (a_[i - 1] == b_[j - 1]) {
        text += a_[--i];
        --j;
        if (!ranges.empty() && ranges.back().a == i + 1 && ranges.back().b == j + 1)
          ranges.back() = {i, j, ranges.back().size + 1};
        else
          ranges.push_back({i, j, 1});
      } else if (at(i - 1, j) > at(i, j - 1)) {
        --i;
      } else {
        --j;
      }
    }
    std::ranges::reverse(text);
    return {std::move(text), std::move(ranges)};
  }

 private:
  std::uint32_t& at(std::size_t i, std::size_t j) { return lengths_[i * (b_.size() + 1) + j]; }

  std::string_view a_, b_;
  std::vector<std::uint32_t> lengths_;
};

/// The largest table of LCS, in numbers: 256 MB.
constexpr std::size_t kMostLcsCells = 64 << 20;

void lcs(Call& call) {
  std::array<std::string_view, 2> texts;
  for (std::size_t i = 0; i < 2; ++i) {
    Database::Entry* const entry = call.find(call.words[1 + i]);
    if (entry != nullptr && entry->value.text() == nullptr)
      return call.reply.error("ERR The specified keys must contain string values");
    if (entry != nullptr) texts[i] = *entry->value.text();
  }
  const auto options = lcs_options(call);
  if (!options) return;
  if ((texts[0].size() + 1) > kMostLcsCells / (texts[1].size() + 1))
    return call.reply.error("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
  LcsTable table(texts[0], texts[1]);
  if (options->only_length) return call.reply.integer(static_cast<std::int64_t>(table.length()));
  auto [text, ranges] = table.trace();
  if (!options->ranges) return call.reply.bulk(text);
  std::erase_if(ranges, [&](const CommonRange& range) {
    return static_cast<std::int64_t>(range.size) < options->least;
  });
  call.reply.map(2);
  call.reply.bulk("matches");
  call.reply.array(ranges.size());
  for (const CommonRange& range : ranges) {
    call.reply.array(options->with_lengths ? 3 : 2);
    for (const std::size_t begin : {range.a, range.b}) {
      call.reply.array(2);
      call.reply.integer(static_cast<std::int64_t>(begin));
      call.reply.integer(static_cast<std::int64_t>(begin + range.size - 1));
    }
    if (options->with_lengths) call.reply.integer(static_cast<std::int64_t>(range.size));
  }
  call.reply.bulk("len");
  call.reply.integer(static_cast<std::int64_t>(table.length()));
}

using namespace flag;
constexpr std::array kStringCommands = {
    Command{"get", 2, kRead | kFast, 1, 1, 1, get},
    Command{"set", -3, kWrite | kGrows, 1, 1, 1, set},
    Command{"setnx", 3, kWrite | kGrows | kFast, 1, 1, 1, setnx},
    Command{"setex", 4, kWrite | kGrows, 1, 1, 1, setex<true>},
    Command{"psetex", 4, kWrite | kGrows, 1, 1, 1, setex<false>},
    Command{"getset", 3, kWrite | kGrows | kFast, 1, 1, 1, getset},
    Command{"getdel", 2, kWrite | kFast, 1, 1, 1, getdel},
    Command{"getex", -2, kWrite | kFast, 1, 1, 1, getex},
    Command{"mget", -2, kRead | kFast, 1, -1, 1, mget},
    Command{"mset", -3, kWrite | kGrows, 1, -1, 2, mset<false>},
    Command{"msetnx", -3, kWrite | kGrows, 1, -1, 2, mset<true>},
    Command{"strlen", 2, kRead | kFast, 1, 1, 1, strlen},
    Command{"append", 3, kWrite | kGrows | kFast, 1, 1, 1, append},
    Command{"setrange", 4, kWrite | kGrows, 1, 1, 1, setrange},
    Command{"getrange", 4, kRead, 1, 1, 1, getrange},
    Command{"substr", 4, kRead, 1, 1, 1, getrange},
    Command{"incr", 2, kWrite | kGrows | kFast, 1, 1, 1, incr<1>},
    Command{"decr", 2, kWrite | kGrows | kFast, 1, 1, 1, incr<-1>},
    Command{"incrby", 3, kWrite | kGrows | kFast, 1, 1, 1, incrby},
    Command{"decrby", 3, kWrite | kGrows | kFast, 1, 1, 1, decrby},
    Command{"incrbyfloat", 3, kWrite | kGrows | kFast, 1, 1, 1, incrbyfloat},
    Command{"lcs", -3, kRead, 1, 2, 1, lcs},
};

}  // namespace

std::span<const Command> string_commands() {
  return kStringCommands;
}

}  // namespace rdmc::kv

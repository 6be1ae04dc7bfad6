// The commands that see a string as a sequence of bits. Bit 0 is the highest bit of the first byte.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>

#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/commands/bits.hpp"

namespace rdmc::kv {

namespace {

bool bit_of(std::string_view bytes, std::uint64_t offset) {
  const std::uint64_t byte = offset / 8;
  return byte < bytes.size() && ((static_cast<unsigned char>(bytes[byte]) >> (7 - offset % 8)) & 1) != 0;
}

void bit_set(Call& call) {
  const auto offset = bit_offset(call, call.words[2]);
  if (!offset) return;
  const auto value = integer(call, call.words[3], "ERR bit is not an integer or out of range");
  if (!value) return;
  if (*value != 0 && *value != 1) return call.reply.error("ERR bit is not an integer or out of range");
  bool has_changed = false;
  Text* const text = text_with_bit(call, call.words[1], *offset, has_changed);
  if (text == nullptr) return;
  const bool before = bit_of(*text, *offset);
  char& byte = text->data()[*offset / 8];
  const int mask = 0x80 >> (*offset % 8);
  byte = static_cast<char>(*value == 1 ? byte | mask : byte & ~mask);
  if (has_changed || before != (*value == 1)) call.changed(call.words[1]);
  call.reply.integer(before ? 1 : 0);
}

void bit_get(Call& call) {
  const auto offset = bit_offset(call, call.words[2]);
  Text* text = nullptr;
  if (offset && find_text(call, call.words[1], text))
    call.reply.integer(text != nullptr && bit_of(*text, *offset) ? 1 : 0);
}

/// The bits from `first` to `end` - 1.
struct BitRange {
  std::uint64_t first = 0, end = 0;
};

std::int64_t count_bits(std::string_view bytes, const BitRange& range) {
  std::int64_t count = 0;
  std::uint64_t at = range.first;
  for (; at < range.end && at % 8 != 0; ++at) count += bit_of(bytes, at);
  for (; at + 64 <= range.end; at += 64) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at / 8, sizeof(word));
    count += std::popcount(word);
  }
  for (; at < range.end; ++at) count += bit_of(bytes, at);
  return count;
}

/// The first bit with this value, or range.end.
std::uint64_t find_bit(std::string_view bytes, const BitRange& range, bool value) {
  const char skipped = value ? '\0' : '\xff';
  for (std::uint64_t at = range.first; at < range.end;) {
    if (at % 8 == 0 && at + 8 <= range.end && bytes[at / 8] == skipped)
      at += 8;
    else if (bit_of(bytes, at) == value)
      return at;
    else
      ++at;
  }
  return range.end;
}

/// Reads the unit BIT or BYTE at the word `at`, which may be missing. Returns the number of bits, or nullopt
/// after an error reply.
std::optional<std::int64_t> unit_bits(Call& call, std::size_t at) {
  if (at >= call.words.size() || is_word(call.words[at], "byte")) return 8;
  if (is_word(call.words[at], "bit")) return 1;
  call.reply.error(kSyntax);
  return std::nullopt;
}

/// The range of the bits from `first` to `last`, which count units of `unit` bits, and from the end if they
/// are negative.
BitRange range_of_units(std::size_t bytes, std::int64_t first, std::int64_t last, std::int64_t unit) {
  const auto size = static_cast<std::int64_t>(bytes) * 8 / unit;
  if (first < 0) first = std::max<std::int64_t>(first + size, 0);
  if (last < 0) last = std::max<std::int64_t>(last + size, 0);
  last = std::min(last, size - 1);
  if (first > last) return {};
  return {static_cast<std::uint64_t>(first * unit), static_cast<std::uint64_t>((last + 1) * unit)};
}

void bit_count(Call& call) {
  Text* text = nullptr;
  if (!find_text(call, call.words[1], text)) return;
  if (text == nullptr) return call.reply.integer(0);
  if (call.words.size() == 2) return call.reply.integer(count_bits(*text, {0, text->size() * 8}));
  if (call.words.size() != 4 && call.words.size() != 5) return call.reply.error(kSyntax);
  const auto first = integer(call, call.words[2]);
  if (!first) return;
  const auto last = integer(call, call.words[3]);
  if (!last) return;
  if (*first < 0 && *last < 0 && *first > *last) return call.reply.integer(0);
  const auto unit = unit_bits(call, 4);
  if (unit) call.reply.integer(count_bits(*text, range_of_units(text->size(), *first, *last, *unit)));
}

void bit_position(Call& call) {
  const auto value = integer(call, call.words[2]);
  if (!value) return;
  if (*value != 0 && *value != 1) return call.reply.error("ERR The bit argument must be 1 or 0.");
  Text* text = nullptr;
  if (!find_text(call, call.words[1], text)) {
    return;
  }
  if (text == nullptr) return call.reply.integer(*value == 1 ? -1 : 0);
  if (call.words.size() > 6) return call.reply.error(kSyntax);
  BitRange range{0, text->size() * 8};
  const bool has_end = call.words.size() >= 5;
  if (call.words.size() >= 4) {
    const auto first = integer(call, call.words[3]);
    if (!first) return;
    const auto unit = unit_bits(call, 5);
    if (!unit) return;
    const auto last = has_end ? integer(call, call.words[4]) : std::optional<std::int64_t>(INT64_MAX);
    if (!last) return;
    range = range_of_units(text->size(), *first, *last, *unit);
  }
  if (range.first == range.end) return call.reply.integer(-1);
  const std::uint64_t found = find_bit(*text, range, *value == 1);
  // Behind a string whose end was not named, all bits are 0.
  if (found == range.end && (*value == 1 || has_end)) return call.reply.integer(-1);
  call.reply.integer(static_cast<std::int64_t>(found));
}

void bit_operation(Call& call) {
  enum class Operation : std::uint8_t { conjunction, disjunction, exclusive, negation } operation;
  if (is_word(call.words[1], "and"))
    operation = Operation::conjunction;
  else if (is_word(call.words[1], "or"))
    operation = Operation::disjunction;
  else if (is_word(call.words[1], "xor"))
    operation = Operation::exclusive;
  else if (is_word(call.words[1], "not"))
    operation = Operation::negation;
  else
    return call.reply.error(kSyntax);
  if (operation == Operation::negation && call.words.size() != 4)
    return call.reply.error("ERR BITOP NOT must be called with a single source key.");
  std::vector<std::string_view> sources;
  std::size_t size = 0;
  for (const std::string_view key : call.words.subspan(3)) {
    Text* text = nullptr;
    if (!find_text(call, key, text)) return;
    sources.push_back(text == nullptr ? std::string_view() : std::string_view(*text));
    size = std::max(size, sources.back().size());
  }
  std::string result(size, '\0');
  std::ranges::copy(sources[0], result.begin());
  if (operation == Operation::negation) std::ranges::transform(result, result.begin(), std::bit_not<char>());
  for (std::size_t i = 1; i < sources.size(); ++i)
    for (std::size_t at = 0; at < size; ++at) {
      const char other = at < sources[i].size() ? sources[i][at] : '\0';
      switch (operation) {
        case Operation::conjunction: result[at] = static_cast<char>(result[at] & other); break;
        case Operation::disjunction: result[at] = static_cast<char>(result[at] | other); break;
        default: result[at] = static_cast<char>(result[at] ^ other);
      }
    }
  if (!result.empty()) {
    set_text(call, call.words[2], result);
    call.find(call.words[2])->value.has_grown = true;
  } else if (Database::Entry* const entry = call.find(call.words[2])) {
    call.erase(*entry);
  }
  call.reply.integer(static_cast<std::int64_t>(size));
}

using namespace flag;
constexpr std::array kBitCommands = {
    Command{"setbit", 4, kWrite | kGrows, 1, 1, 1, bit_set},
    Command{"getbit", 3, kRead | kFast, 1, 1, 1, bit_get},
    Command{"bitcount", -2, kRead, 1, 1, 1, bit_count},
    Command{"bitpos", -3, kRead, 1, 1, 1, bit_position},
    Command{"bitop", -4, kWrite | kGrows, 2, -1, 1, bit_operation},
};

}  // namespace

std::optional<std::uint64_t> bit_offset(Call& call, std::string_view word, unsigned width) {
  const bool counts_fields = width > 0 && word.starts_with('#');
  const auto number = to_integer(counts_fields ? word.substr(1) : word);
  std::int64_t offset = 0;
  if (!number || __builtin_mul_overflow(*number, counts_fields ? std::int64_t{width} : 1, &offset) ||
      offset < 0 || static_cast<std::uint64_t>(offset) / 8 >= kMostTextBytes) {
    call.reply.error("ERR bit offset is not an integer or out of range");
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(offset);
}

Text* text_with_bit(Call& call, std::string_view key, std::uint64_t offset, bool& has_changed) {
  Text* text = nullptr;
  if (!find_text(call, key, text)) return nullptr;
  Item& item = call.get_or_insert(key).value;
  has_changed = item.text()->size() <= offset / 8;
  if (has_changed) item.text()->resize(call.databases.memory(), offset / 8 + 1);
  item.has_grown = true;
  return item.text();
}

std::span<const Command> bit_commands() {
  return kBitCommands;
}

}  // namespace rdmc::kv

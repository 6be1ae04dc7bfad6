// BITFIELD: integers of any width in a string.
#include <algorithm>
#include <array>

#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/commands/bits.hpp"

namespace rdmc::kv {

namespace {

enum class Overflow : std::uint8_t { wrap, saturate, fail };

struct FieldOperation {
  enum class Kind : std::uint8_t { get, set, add } kind;
  bool is_signed;
  unsigned width;
  std::uint64_t offset;
  std::int64_t operand;
  Overflow overflow;
};

std::uint64_t mask_of(unsigned width) {
  return width == 64 ? UINT64_MAX : (std::uint64_t{1} << width) - 1;
}

/// The field as a number without a sign. Bits behind the string are 0.
std::uint64_t read_field(std::string_view bytes, std::uint64_t offset, unsigned width) {
  std::uint64_t value = 0;
  for (std::uint64_t at = offset; at < offset + width; ++at) {
    const std::uint64_t byte = at / 8;
    const unsigned bit =
        byte < bytes.size() ? static_cast<unsigned char>(bytes[byte]) >> (7 - at % 8) & 1U : 0;
    value = value << 1 | bit;
  }
  return value;
}

void write_field(char* bytes, std::uint64_t offset, unsigned width, std::uint64_t value) {
  for (unsigned i = 0; i < width; ++i) {
    const std::uint64_t at = offset + i;
    const int mask = 0x80 >> (at % 8);
    const bool bit = (value >> (width - 1 - i) & 1) != 0;
    bytes[at / 8] = static_cast<char>(bit ? bytes[at / 8] | mask : bytes[at / 8] & ~mask);
  }
}

/// The number of the lowest `width` bits.
std::int64_t number_of(std::uint64_t bits, bool is_signed, unsigned width) {
  bits &= mask_of(width);
  if (is_signed && (bits >> (width - 1)) != 0) bits |= ~mask_of(width);
  return static_cast<std::int64_t>(bits);
}

/// The sum of two numbers in a field, or nullopt if it does not fit and that is an error.
std::optional<std::int64_t> sum_in_field(const FieldOperation& field, std::int64_t a, std::int64_t b) {
  const std::int64_t most =
      static_cast<std::int64_t>(mask_of(field.is_signed ? field.width - 1 : field.width));
  const std::int64_t least = field.is_signed ? -most - 1 : 0;
  std::int64_t sum = 0;
  const bool overflows = __builtin_add_overflow(a, b, &sum);
  if (!overflows && sum >= least && sum <= most) return sum;
  const bool is_low = overflows ? b < 0 : sum < least;
  switch (field.overflow) {
    case Overflow::fail: return std::nullopt;
    case Overflow::saturate: return is_low ? least : most;
    case Overflow::wrap: break;
  }
  return number_of(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b), field.is_signed,
                   field.width);
}

/// A number that SET puts into a field. A negative number is a large one for a field without a sign.
std::optional<std::int64_t> value_for_field(const FieldOperation& field) {
  if (!field.is_signed && field.operand < 0) {
    switch (field.overflow) {
      case Overflow::fail: return std::nullopt;
      case Overflow::saturate: return static_cast<std::int64_t>(mask_of(field.width));
      case Overflow::wrap: return number_of(static_cast<std::uint64_t>(field.operand), false, field.width);
    }
  }
  return sum_in_field(field, field.operand, 0);
}

/// Reads "i8" or "u63". Returns false after an error reply.
bool read_type(Call& call, std::string_view word, FieldOperation& field) {
  field.is_signed = word.starts_with('i');
  const auto width = word.empty() ? std::nullopt : to_integer(word.substr(1));
  if ((!field.is_signed && !word.starts_with('u')) || !width || *width < 1 ||
      *width > (field.is_signed ? 64 : 63)) {
    call.reply.error(
        "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.");
    return false;
  }
  field.width = static_cast<unsigned>(*width);
  return true;
}

std::optional<std::vector<FieldOperation>> field_operations(Call& call) {
  using Kind = FieldOperation::Kind;
  std::vector<FieldOperation> operations;
  auto overflow = Overflow::wrap;
  const auto fail = [&](std::string_view error) {
    call.reply.error(error);
    return std::nullopt;
  };
  for (std::size_t i = 2; i < call.words.size();) {
    const std::size_t rest = call.words.size() - i - 1;
    const std::string_view word = call.words[i];
    FieldOperation field{.overflow = overflow};
    if (is_word(word, "get") && rest >= 2) {
      field.kind = Kind::get;
    } else if (is_word(word, "set") && rest >= 3) {
      field.kind = Kind::set;
    } else if (is_word(word, "incrby") && rest >= 3) {
      field.kind = Kind::add;
    } else if (is_word(word, "overflow") && rest >= 1) {
      const std::string_view name = call.words[i + 1];
      if (is_word(name, "wrap"))
        overflow = Overflow::wrap;
      else if (is_word(name, "sat"))
        overflow = Overflow::saturate;
      else if (is_word(name, "fail"))
        overflow = Overflow::fail;
      else
        return fail("ERR Invalid OVERFLOW type specified");
      i += 2;
      continue;
    } else {
      return fail(kSyntax);
    }
    if (!read_type(call, call.words[i + 1], field)) return std::nullopt;
    const auto offset = bit_offset(call, call.words[i + 2], field.width);
    if (!offset) return std::nullopt;
    field.offset = *offset;
    if (field.kind != Kind::get) {
      const auto operand = integer(call, call.words[i + 3]);
      if (!operand) return std::nullopt;
      field.operand = *operand;
    }
    operations.push_back(field);
    i += field.kind == Kind::get ? 3 : 4;
  }
  return operations;
}

template <bool is_read_only>
void bit_field(Call& call) {
  using Kind = FieldOperation::Kind;
  const auto operations = field_operations(call);
  if (!operations) return;
  std::optional<std::uint64_t> last_written;
  for (const FieldOperation& field : *operations)
    if (field.kind != Kind::get)
      last_written = std::max(last_written.value_or(0), field.offset + field.width - 1);
  if (last_written && is_read_only)
    return call.reply.error("ERR BITFIELD_RO only supports the GET subcommand");
  Text* text = nullptr;
  if (!last_written && !find_text(call, call.words[1], text)) return;
  bool has_changed = false;
  if (last_written && (text = text_with_bit(call, call.words[1], *last_written, has_changed)) == nullptr)
    return;
  call.reply.array(operations->size());
  for (const FieldOperation& field : *operations) {
    const std::string_view bytes = text == nullptr ? std::string_view() : std::string_view(*text);
    const std::int64_t before =
        number_of(read_field(bytes, field.offset, field.width), field.is_signed, field.width);
    if (field.kind == Kind::get) {
      call.reply.integer(before);
      continue;
    }
    const auto after =
        field.kind == Kind::add ? sum_in_field(field, before, field.operand) : value_for_field(field);
    if (!after) {
      call.reply.null();
      continue;
    }
    has_changed = has_changed || *after != before;
    write_field(text->data(), field.offset, field.width, static_cast<std::uint64_t>(*after));
    call.reply.integer(field.kind == Kind::add ? *after : before);
  }
  if (has_changed) call.changed(call.words[1]);
}

using namespace flag;
constexpr std::array kBitFieldCommands = {
    Command{"bitfield", -2, kWrite | kGrows, 1, 1, 1, bit_field<false>},
    Command{"bitfield_ro", -2, kRead | kFast, 1, 1, 1, bit_field<true>},
};

}  // namespace

std::span<const Command> bit_field_commands() {
  return kBitFieldCommands;
}

}  // namespace rdmc::kv

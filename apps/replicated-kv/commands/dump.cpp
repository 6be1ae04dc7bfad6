// DUMP and RESTORE. A dump is the value as it is in saved states (data/databases.hpp), then the version of
// this form in 2 bytes, and the XXH3 digest of all earlier bytes in 8 bytes, each with the lowest byte first.
// Redis has another form.
#include <array>

#include <xxhash.h>

#include "apps/replicated-kv/commands/collections.hpp"

namespace rdmc::kv {

namespace {

constexpr std::size_t kVersionBytes = 2, kDigestBytes = 8;
constexpr std::uint64_t kDumpVersion = 1;

void put_number(std::vector<std::byte>& out, std::uint64_t number, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out.push_back(static_cast<std::byte>(number >> (8 * i)));
}

std::uint64_t number_in(std::string_view bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = bytes.size(); i > 0; --i)
    number = number << 8 | static_cast<unsigned char>(bytes[i - 1]);
  return number;
}

void dump(Call& call) {
  Database::Entry* const entry = call.find(call.words[1]);
  if (entry == nullptr) return call.reply.null();
  std::vector<std::byte> out;
  save_value(entry->value, out);
  put_number(out, kDumpVersion, kVersionBytes);
  put_number(out, XXH3_64bits(out.data(), out.size()), kDigestBytes);
  call.reply.bulk({reinterpret_cast<const char*>(out.data()), out.size()});
}

/// The value in a dump, or nullopt if the version or the digest is wrong.
std::optional<std::string_view> value_in(std::string_view bytes) {
  if (bytes.size() < kVersionBytes + kDigestBytes) return std::nullopt;
  const std::string_view digested = bytes.substr(0, bytes.size() - kDigestBytes);
  const std::string_view value = digested.substr(0, digested.size() - kVersionBytes);
  if (number_in(digested.substr(value.size())) != kDumpVersion ||
      number_in(bytes.substr(digested.size())) != XXH3_64bits(digested.data(), digested.size()))
    return std::nullopt;
  return value;
}

struct RestoreOptions {
  bool replaces = false, is_absolute = false;
  std::optional<std::uint64_t> idle_seconds, frequency;
};

std::optional<RestoreOptions> restore_options(Call& call) {
  RestoreOptions options;
  for (std::size_t i = 4; i < call.words.size(); ++i) {
    const bool has_value = i + 1 < call.words.size();
    if (is_word(call.words[i], "replace")) {
      options.replaces = true;
    } else if (is_word(call.words[i], "absttl")) {
      options.is_absolute = true;
    } else if (has_value && (is_word(call.words[i], "idletime") || is_word(call.words[i], "freq"))) {
      const bool is_time = is_word(call.words[i], "idletime");
      const auto number = integer(call, call.words[++i]);
      if (!number) return std::nullopt;
      if (*number >= 0 && (is_time || *number <= UsageClock::kMostCount)) {
        (is_time ? options.idle_seconds : options.frequency) = static_cast<std::uint64_t>(*number);
        continue;
      }
      call.reply.error(is_time ? "ERR Invalid IDLETIME value, must be >= 0"
                               : "ERR Invalid FREQ value, must be >= 0 and <= 255");
      return std::nullopt;
    } else {
      call.reply.error(kSyntax);
      return std::nullopt;
    }
  }
  return options;
}

void restore(Call& call) {
  const auto options = restore_options(call);
  if (!options) return;
  const std::string_view key = call.words[1];
  Database::Entry* const old = call.find(key);
  if (old != nullptr && !options->replaces)
    return call.reply.error("BUSYKEY Target key name already exists.");
  const auto time = integer(call, call.words[2]);
  if (!time) return;
  if (*time < 0) return call.reply.error("ERR Invalid TTL value, must be >= 0");
  const auto value = value_in(call.words[3]);
  if (!value) return call.reply.error("ERR DUMP payload version or checksum are wrong");
  Item item;
  VarintReader in(std::as_bytes(std::span(*value)));
  if (!load_value(in, call.databases.shared(), item) || !in.is_done())
    return call.reply.error("ERR Bad data format");
  Milliseconds deadline = *time;
  if (!options->is_absolute && __builtin_add_overflow(deadline, call.now, &deadline))
    return call.reply.error("ERR Invalid TTL value, must be >= 0");
  if (old != nullptr) call.erase(*old);
  if (*time != 0 && deadline <= call.now) return call.reply.ok();
  Database::Entry& entry = call.get_or_insert(key);
  entry.value.value = std::move(item.value);
  entry.value.has_grown = item.has_grown;
  const UsageClock& clock = call.databases.shared().usage;
  if (options->idle_seconds && !clock.counts_uses)
    entry.value.usage = clock.with_idle_seconds(*options->idle_seconds) & UsageClock::kMask;
  if (options->frequency && clock.counts_uses)
    entry.value.usage = clock.with_count(static_cast<std::uint32_t>(*options->frequency)) & UsageClock::kMask;
  if (*time != 0) call.db().set_deadline(entry, deadline);
  call.changed(key);
  call.reply.ok();
}

using namespace flag;
constexpr std::array kDumpCommands = {
    Command{"dump", 2, kRead, 1, 1, 1, dump},
    Command{"restore", -4, kWrite | kGrows, 1, 1, 1, restore},
};

}  // namespace

std::span<const Command> dump_commands() {
  return kDumpCommands;
}

}  // namespace rdmc::kv

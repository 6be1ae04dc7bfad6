// All commands share these functions for numbers in words, options, and errors. The functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "apps/replicated-kv/commands/command.hpp"
#include "apps/replicated-kv/data/numbers.hpp"

namespace rdmc::kv {

// Error replies that several commands have. The texts are those of Redis 7.0.
constexpr std::string_view kWrongType = "WRONGTYPE Operation against a key holding the wrong kind of value";
constexpr std::string_view kSyntax = "ERR syntax error";
constexpr std::string_view kNotAnInteger = "ERR value is not an integer or out of range";
constexpr std::string_view kNotAFloat = "ERR value is not a valid float";
constexpr std::string_view kNoKey = "ERR no such key";
constexpr std::string_view kTooLong = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
/// The longest string.
constexpr std::size_t kMostTextBytes = 512 << 20;

/// Compares with a word in lower case. Upper and lower case of `word` are the same.
bool is_word(std::string_view word, std::string_view lower);
std::string to_lower(std::string_view word);

/// The number in a word (data/numbers.hpp), or nullopt after an error reply.
std::optional<std::int64_t> integer(Call& call, std::string_view word,
                                    std::string_view error = kNotAnInteger);
/// A number, also "inf" and "-inf". NaN is not one.
std::optional<double> to_real(std::string_view word);
std::optional<long double> to_long_real(std::string_view word);

/// Up to 17 digits after the point, without trailing zeros, as Redis writes it.
std::string decimal_text(long double number);

/// Finds a string. Returns false, after the error reply, if the key is something else. `text` is null if the
/// key is missing.
bool find_text(Call& call, std::string_view key, Text*& text);

/// Gives the key this string. Its deadline is removed unless `keeps_deadline`.
void set_text(Call& call, std::string_view key, std::string_view bytes, bool keeps_deadline = false);

/// A time that a command gives.
struct TimeFormat {
  bool is_seconds;   ///< otherwise milliseconds
  bool is_relative;  ///< to the present time
};
/// Returns the deadline. Replies with "invalid expire time" if it is not positive or out of range.
std::optional<Milliseconds> deadline_of(Call& call, std::int64_t number, const TimeFormat& format,
                                        bool must_be_positive);

/// The reply to HELP. `lines` describe the subcommands.
void help(ReplyWriter& reply, std::string_view command, std::span<const std::string_view> lines);

/// Matches a pattern with *, ?, [a-z], [^a-z] and \x, as in KEYS.
bool matches(std::string_view pattern, std::string_view text);

}  // namespace rdmc::kv

#include "apps/replicated-kv/commands/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>

namespace rdmc::kv {

namespace {

constexpr std::size_t kMostNumberBytes = 5 << 10;

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

template <typename Number, typename Parse>
std::optional<Number> real_of(std::string_view word, Parse parse) {
  if (word.empty() || word.size() > kMostNumberBytes || word[0] == ' ' ||
      (word[0] >= '\t' && word[0] <= '\r'))
    return std::nullopt;
  const std::string text(word);
  char* end = nullptr;
  errno = 0;
  const Number number = parse(text.c_str(), &end);
  if (end != text.c_str() + text.size() || std::isnan(number)) return std::nullopt;
  if (errno == ERANGE && (std::isinf(number) || number == 0)) return std::nullopt;
  return number;
}

/// Matches one character with a class whose "[" is at `at`. Moves `at` to its last character.
bool matches_class(std::string_view pattern, std::size_t& at, char c) {
  ++at;
  const bool is_negated = at < pattern.size() && pattern[at] == '^';
  if (is_negated) ++at;
  bool found = false;
  for (;; ++at) {
    if (at >= pattern.size()) {
      at = pattern.size() - 1;
      break;
    }
    if (pattern[at] == '\\' && at + 1 < pattern.size()) {
      if (pattern[++at] == c) found = true;
    } else if (pattern[at] == ']') {
      break;
    } else if (at + 2 < pattern.size() && pattern[at + 1] == '-') {
      const auto [first, last] = std::minmax(pattern[at], pattern[at + 2]);
      if (c >= first && c <= last) found = true;
      at += 2;
    } else if (pattern[at] == c) {
      found = true;
    }
  }
  return found != is_negated;
}

}  // namespace

bool is_word(std::string_view word, std::string_view expected) {
  return word.size() == expected.size() &&
         std::ranges::equal(word, expected, [](char a, char b) { return lower(a) == b; });
}

std::string to_lower(std::string_view word) {
  std::string text(word);
  std::ranges::transform(text, text.begin(), lower);
  return text;
}

std::optional<std::int64_t> integer(Call& call, std::string_view word, std::string_view error) {
  const auto number = to_integer(word);
  if (!number) call.reply.error(error);
  return number;
}

std::optional<double> to_real(std::string_view word) {
  return real_of<double>(word, [](const char* text, char** end) { return std::strtod(text, end); });
}

std::optional<long double> to_long_real(std::string_view word) {
  return real_of<long double>(word, [](const char* text, char** end) { return std::strtold(text, end); });
}

std::string decimal_text(long double number) {
  const std::string text = fmt::format("{:.17f}", number);
  std::string_view digits = text;
  while (digits.ends_with('0')) digits.remove_suffix(1);
  if (digits.ends_with('.')) digits.remove_suffix(1);
  return digits == "-0" ? "0" : std::string(digits);
}

bool find_text(Call& call, std::string_view key, Text*& text) {
  Database::Entry* const entry = call.find(key);
  text = entry == nullptr ? nullptr : entry->value.text();
  if (entry != nullptr && text == nullptr) call.reply.error(kWrongType);
  return entry == nullptr || text != nullptr;
}

void set_text(Call& call, std::string_view key, std::string_view bytes, bool keeps_deadline) {
  Database::Entry& entry = call.get_or_insert(key);
  if (Text* const text = entry.value.text())
    text->assign(call.databases.memory(), bytes);
  else
    entry.value.value.emplace<Text>(call.databases.memory(), bytes);
  entry.value.has_grown = false;
  if (!keeps_deadline) call.db().remove_deadline(entry);
  call.changed(key);
}

std::optional<Milliseconds> deadline_of(Call& call, std::int64_t number, const TimeFormat& format,
                                        bool must_be_positive) {
  Milliseconds deadline = number;
  if ((must_be_positive && number <= 0) ||
      (format.is_seconds && __builtin_mul_overflow(number, std::int64_t{1000}, &deadline)) ||
      (format.is_relative && __builtin_add_overflow(deadline, call.now, &deadline))) {
    call.reply.error("ERR invalid expire time in '" + to_lower(call.words[0]) + "' command");
    return std::nullopt;
  }
  return deadline;
}

bool matches(std::string_view pattern, std::string_view text) {
  // After the last "*": where the pattern goes on, and from which character of the text it was tried last.
  std::size_t star = std::string_view::npos, tried = 0, p = 0, t = 0;
  while (t < text.size()) {
    std::size_t next = p;
    bool matched = false;
    if (p < pattern.size()) {
      switch (pattern[p]) {
        case '*':
          star = ++p;
          tried = t;
          continue;
        case '?': matched = true; break;
        case '[': matched = matches_class(pattern, next, text[t]); break;
        case '\\':
          if (p + 1 < pattern.size()) ++next;
          [[fallthrough]];
        default: matched = pattern[next] == text[t];
      }
    }
    if (matched) {
      p = next + 1;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star;
      t = ++tried;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

void help(ReplyWriter& reply, std::string_view command, std::span<const std::string_view> lines) {
  reply.array(lines.size() + 3);
  reply.simple(std::string(command) + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
  for (const std::string_view line : lines) reply.simple(line);
  reply.simple("HELP");
  reply.simple("    Prints this help.");
}

}  // namespace rdmc::kv

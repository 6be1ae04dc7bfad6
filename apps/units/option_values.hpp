// Says which values an option takes: sizes and rates in the project's format (units.hpp), numbers of a range,
// and words of a list. The help shows the values, and all programs refuse a wrong value with the same
// sentence. Any thread may use it.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/units/units.hpp"

namespace rdmc {

/// Returns the words with `between` between them, and with `before_last` before the last one.
inline std::string listed(std::span<const std::string> words, std::string_view between,
                          std::string_view before_last) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? before_last : between;
    text += words[i];
  }
  return text;
}

/// Makes an empty value an error at each option of `app` that was declared by now. A script whose variable is
/// not set would otherwise switch off what the option is for, and nobody would notice.
inline void refuse_empty_values(CLI::App& app) {
  const CLI::Validator is_not_empty(
      // CLI11 takes the next word as the value of `--option=`.
      [](std::string& text) -> std::string {
        if (text.empty()) return "the value is empty";
        return text.starts_with("--")
                   ? "the value is empty, or it is '" + text + "', which looks like an option"
                   : "";
      },
      "");
  for (CLI::Option* const option : app.get_options())
    if (option->get_expected_min() > 0) option->check(is_not_empty);
}

/// Returns a validator for an option that takes one of these words, of which there is at least one.
inline CLI::Validator one_of(std::vector<std::string> words) {
  std::string shown = listed(words, "|", "|");
  return {[words = std::move(words)](std::string& text) -> std::string {
            if (std::ranges::find(words, text) != words.end()) return {};
            return fmt::format("'{}' is not a value of this option: write {}", text,
                               listed(words, ", ", " or "));
          },
          std::move(shown)};
}

/// Returns a validator for an option that takes one of these numbers.
inline CLI::Validator one_of(std::initializer_list<int> numbers) {
  std::vector<std::string> words;
  for (const int number : numbers) words.push_back(std::to_string(number));
  return one_of(std::move(words));
}

/// Returns a validator for an option that takes a word, and gets the value beside it: `add_option(…,
/// value)->transform(value_of<Enum>({{"word", Enum::value}}))`.
template <typename T>
CLI::Validator value_of(std::vector<std::pair<std::string, T>> values) {
  std::vector<std::string> words;
  for (const auto& [word, value] : values) words.push_back(word);
  const CLI::Validator is_known = one_of(std::move(words));
  return {[values = std::move(values), is_known](std::string& text) -> std::string {
            if (auto wrong = is_known(text); !wrong.empty()) return wrong;
            const auto found = std::ranges::find(values, text, &std::pair<std::string, T>::first);
            text = std::to_string(static_cast<std::int64_t>(found->second));
            return {};
          },
          is_known.get_description()};
}

/// Returns a validator for an option of the type T that takes a number from `least` to `most`, and 0 if
/// `also_zero` is true.
template <typename T>
CLI::Validator number_from(T least, T most = std::numeric_limits<T>::max(), bool also_zero = false) {
  const bool is_open = most == std::numeric_limits<T>::max();
  const std::string zero = also_zero ? "0, or " : "";
  const std::string range = is_open ? fmt::format("{} or more", least) : fmt::format("{} to {}", least, most);
  return {[=](std::string& text) -> std::string {
            T number{};
            const bool is_number = CLI::detail::lexical_cast(text, number);
            if (is_number && ((number >= least && number <= most) || (also_zero && number == 0))) return {};
            return fmt::format("'{}' is not a value of this option: write {}a {} {}", text, zero,
                               std::is_integral_v<T> ? "whole number" : "number",
                               is_open ? fmt::format("that is at least {}", least)
                                       : fmt::format("from {} to {}", least, most));
          },
          zero + range};
}

/// Adds the option `--dscp`. Every program that opens a fabric has it.
inline CLI::Option* add_dscp(CLI::App& app, std::uint8_t& dscp) {
  return app
      .add_option("--dscp", dscp,
                  "differentiated services code point of the packets that leave the host: which queue of the "
                  "switches they go through")
      ->check(number_from(0, 63));
}

/// Returns a validator for an option that takes a size: `add_option(…, bytes)->transform(size_value())`.
inline CLI::Validator size_value() {
  return {[](std::string& text) -> std::string {
            const auto bytes = parse_size(text);
            if (!bytes) return bytes.error().what;
            text = std::to_string(*bytes);
            return {};
          },
          "SIZE"};
}

/// Returns a validator for an option that takes a size or `auto`. `auto` becomes 0.
inline CLI::Validator size_or_auto_value() {
  return {[](std::string& text) -> std::string {
            const auto bytes = text == "auto" ? Result<std::uint64_t>(0) : parse_size(text);
            if (!bytes) return bytes.error().what;
            text = std::to_string(*bytes);
            return {};
          },
          "SIZE|auto"};
}

/// Returns a validator for an option that takes a rate.
inline CLI::Validator rate_value() {
  return {[](std::string& text) -> std::string {
            const auto rate = parse_rate(text);
            if (!rate) return rate.error().what;
            text = std::to_string(*rate);
            return {};
          },
          "RATE"};
}

}  // namespace rdmc

#include "apps/units/units.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

namespace rdmc {
namespace {

/// Parses a plain decimal number: digits and at most one point, without a sign or an exponent.
std::optional<double> parse_decimal(std::string_view text) {
  if (text.empty() || text.find_first_not_of("0123456789.") != std::string_view::npos) return std::nullopt;
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string quoted(std::string_view text) {
  return fmt::format("'{}'", text);
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  const auto wrong = [&] {
    return fail(Errc::invalid_argument,
                quoted(text) + " is not a size: write bytes, or a number with K, M or G");
  };
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range)
    return fail(Errc::invalid_argument, quoted(text) + " is too large");
  if (error != std::errc{}) return wrong();
  int shift = 0;
  const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (suffix == "K")
    shift = 10;
  else if (suffix == "M")
    shift = 20;
  else if (suffix == "G")
    shift = 30;
  else if (!suffix.empty())
    return wrong();
  if (value >= (std::uint64_t{1} << 63) >> shift)
    return fail(Errc::invalid_argument, quoted(text) + " is too large");
  return value << shift;
}

Result<std::uint64_t> parse_rate(std::string_view text) {
  std::string_view number = text;
  double scale = 1;
  if (!text.empty()) {
    const char last = text.back();
    if (last == 'k')
      scale = 1e3;
    else if (last == 'm')
      scale = 1e6;
    else if (last == 'g')
      scale = 1e9;
    if (scale != 1) number.remove_suffix(1);
  }
  const auto value = parse_decimal(number);
  if (!value) {
    return fail(Errc::invalid_argument,
                quoted(text) + " is not a rate: write bits per second, or a number with k, m or g");
  }
  const double bits = *value * scale;
  if (bits < 1)
    return fail(Errc::invalid_argument, quoted(text) + " is no rate at all: it must be at least 1 bit/s");
  if (bits >= 1e18) return fail(Errc::invalid_argument, quoted(text) + " is too large");
  return static_cast<std::uint64_t>(bits);
}

Result<Duration> parse_duration(std::string_view text) {
  std::string_view number = text;
  double scale = 1e9;
  if (text.ends_with("ms")) {
    number.remove_suffix(2);
    scale = 1e6;
  } else if (text.ends_with('s')) {
    number.remove_suffix(1);
  }
  const auto value = parse_decimal(number);
  if (!value) {
    return fail(Errc::invalid_argument,
                quoted(text) + " is not a duration: write seconds, or a number with ms or s");
  }
  if (*value * scale > 1e15) return fail(Errc::invalid_argument, quoted(text) + " is too long");
  return nanoseconds(std::llround(*value * scale));
}

std::string size_words(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr std::array kUnits{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, kUnits[unit]);
}

std::string rate_words(double bits_per_second) {
  if (!std::isfinite(bits_per_second) || bits_per_second < 0) return "?";
  if (bits_per_second >= 1e9) return fmt::format("{:.2f} Gb/s", bits_per_second / 1e9);
  if (bits_per_second >= 1e6) return fmt::format("{:.1f} Mb/s", bits_per_second / 1e6);
  return fmt::format("{:.1f} kb/s", bits_per_second / 1e3);
}

std::string duration_words(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "?";
  if (seconds < 1) return fmt::format("{:.3f} s", seconds);
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = std::llround(seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
}

}  // namespace rdmc

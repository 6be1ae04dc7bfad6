#include "apps/program/output.hpp"

#include <errno.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace rdmc {
namespace {

/// Returns the length of a valid UTF-8 sequence for one printable character at the beginning of `text`.
/// Returns 0 if there is none.
std::size_t sequence_length(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = at(0);
  const std::size_t length = first < 0x80 ? 1 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (length == 1) return first >= 0x20 && first != 0x7F ? 1 : 0;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  std::uint32_t code = first & (0xFF >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
    code = code << 6 | (at(i) & 0x3F);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  const bool control = code < 0xA0;  // true for C1 control characters
  // True for left-to-right and right-to-left marks, line separators, and bidirectional overrides.
  const bool direction = (code >= 0x200E && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
                         (code >= 0x2066 && code <= 0x2069);
  return code < kLeast[length] || code > 0x10FFFF || surrogate || control || direction ? 0 : length;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const auto length = sequence_length(text);
    if (length == 0)
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    else
      shown += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return shown;
}

std::string json_line(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void print_json(const Json& object) {
  fmt::print("{}", json_line(object));
  std::fflush(stdout);
}

void print_results(const Json& object, bool as_json) {
  if (as_json) return print_json(object);
  for (const auto& [key, value] : object.items()) fmt::print("{:<18} {}\n", key, value.dump());
}

std::string complaint(std::string_view text) {
  return fmt::format("{}: {}\n", program_invocation_short_name, printable(text));
}

namespace {

/// True if stderr is the stream that systemd has connected to the journal (systemd.exec(5)).
bool is_journal() {
  const char* const named = std::getenv("JOURNAL_STREAM");
  struct stat found {};
  return named != nullptr && ::fstat(STDERR_FILENO, &found) == 0 &&
         fmt::format("{}:{}", found.st_dev, found.st_ino) == named;
}

}  // namespace

std::string log_line(LogLevel level, std::string_view text) {
  struct Name {
    std::string_view name;
    int priority;
  };
  constexpr std::array<Name, 3> kNames{{{"info", 6}, {"warning", 4}, {"error", 3}}};
  const Name& name = kNames[static_cast<std::size_t>(level)];
  if (is_journal()) return fmt::format("<{}>{}\n", name.priority, printable(text));
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm date{};
  ::gmtime_r(&now.tv_sec, &date);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z {} {}", date.tm_year + 1900, date.tm_mon + 1,
                     date.tm_mday, date.tm_hour, date.tm_min, date.tm_sec, now.tv_nsec / 1'000'000, name.name,
                     complaint(text));
}

void log(LogLevel level, std::string_view text) {
  fmt::print(stderr, "{}", log_line(level, text));
}

int complain(std::string_view text, int exit_code) {
  fmt::print(stderr, "{}", complaint(text));
  return exit_code;
}

}  // namespace rdmc

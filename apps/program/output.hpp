// The output that all programs have in common: text for people, JSON for programs, and complaints. The text
// may come from peers and users, so it can have any bytes. The functions may be called from any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "dataplane/base/error.hpp"

namespace rdmc {

using Json = nlohmann::ordered_json;

/// Returns `text` with control characters and invalid UTF-8 written as \xNN, so that a terminal can show it.
std::string printable(std::string_view text);

/// Returns the object as one line with a newline. Bytes that are not UTF-8 become U+FFFD.
std::string json_line(const Json& object);

/// Prints json_line(object) on stdout at once.
void print_json(const Json& object);
/// Prints the results of a program on stdout: as JSON if `as_json` is true, and otherwise one value per line.
void print_results(const Json& object, bool as_json);

/// Returns "PROGRAM: TEXT" as one line with a newline, for stderr. PROGRAM is the name by which this program
/// was started.
std::string complaint(std::string_view text);
/// Prints complaint(text) on stderr. Returns `exit_code`.
int complain(std::string_view text, int exit_code = 1);
inline int complain(const Error& error, int exit_code = 1) {
  return complain(error.what, exit_code);
}

enum class LogLevel : std::uint8_t { info, warning, error };

/// Returns "TIME LEVEL PROGRAM: TEXT" as one line with a newline. TIME is in UTC, with milliseconds. It is
/// left out if stderr goes to systemd's journal, which has the time itself. Then the line begins with the
/// priority that the journal reads (sd-daemon(3)).
std::string log_line(LogLevel level, std::string_view text);
/// Prints log_line() on stderr. For programs that run for a long time.
void log(LogLevel level, std::string_view text);

}  // namespace rdmc

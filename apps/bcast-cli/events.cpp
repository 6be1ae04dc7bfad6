#include "apps/bcast-cli/events.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/units/units.hpp"

namespace rdmc::bcast {
namespace {

using Json = nlohmann::ordered_json;

std::string line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// Rounds to microseconds, because no measurement here is finer. JSON has no infinity, so infinity becomes 0.
double rounded(double value) {
  return std::isfinite(value) ? std::round(value * 1e6) / 1e6 : 0;
}

const char* word(session::Status status) {
  switch (status) {
    case session::Status::ok: return "ok";
    case session::Status::failed: return "failed";
    case session::Status::refused: return "refused";
  }
  return "failed";
}

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

void SummaryEvent::count(session::Status status) {
  switch (status) {
    case session::Status::ok: ++ok; break;
    case session::Status::failed: ++failed; break;
    case session::Status::refused: ++refused; break;
  }
}

double SummaryEvent::goodput_gbps() const {
  return ok == 0 || seconds <= 0 ? 0 : static_cast<double>(bytes) * 8 / seconds / 1e9;
}

std::string json_line(const ProgressEvent& event) {
  Json json = {{"event", "progress"},
               {"bytes", event.bytes},
               {"total_bytes", event.total_bytes},
               {"seconds", rounded(event.seconds)},
               {"goodput_gbps", rounded(event.bits_per_second / 1e9)},
               {"receivers", event.receivers},
               {"done", event.done}};
  if (!event.slowest_host.empty()) {
    json["slowest_host"] = event.slowest_host;
    json["slowest_bytes"] = event.slowest_bytes;
  }
  return line(json);
}

std::string json_line(const FabricEvent& event) {
  return line({{"event", "fabric"}, {"fabric", event.fabric}, {"reason", event.reason}});
}

std::string json_line(const PlanEvent& event) {
  return line({{"event", "plan"},
               {"algorithm", event.algorithm},
               {"block_size", event.block_bytes},
               {"receivers", event.receivers}});
}

std::string json_line(const StragglerEvent& event) {
  return line({{"event", "straggler"}, {"host", event.host}});
}

std::string json_line(const ReceiverEvent& event) {
  return line({{"event", "receiver"},
               {"host", event.host},
               {"status", word(event.status)},
               {"bytes", event.bytes},
               {"seconds", rounded(event.seconds)},
               {"digest", event.digest},
               {"cause", event.cause}});
}

std::string json_line(const SummaryEvent& event) {
  Json json = {{"event", "summary"},
               {"ok", event.ok},
               {"failed", event.failed},
               {"refused", event.refused},
               {"bytes", event.bytes},
               {"seconds", rounded(event.seconds)},
               {"goodput_gbps", rounded(event.goodput_gbps())}};
  if (event.dry_run) json["dry_run"] = true;
  if (!event.cause.empty()) json["cause"] = event.cause;
  return line(json);
}

std::string text_line(const FabricEvent& event) {
  return fmt::format("fabric: {} ({})\n", printable(event.fabric), printable(event.reason));
}

std::string text_line(const PlanEvent& event) {
  return fmt::format("plan: {} to {} receivers, blocks of {}\n", event.algorithm, event.receivers,
                     size_words(event.block_bytes));
}

std::string text_line(const StragglerEvent& event) {
  return fmt::format("{}  is slower than the others, or far from them; they go on without waiting for it\n",
                     printable(event.host));
}

std::string text_line(const ReceiverEvent& event) {
  const auto host = printable(event.host);
  if (event.status == session::Status::ok && event.digest.empty()) return fmt::format("{}  ok\n", host);
  if (event.status == session::Status::ok) {
    const auto rate = event.seconds > 0 ? static_cast<double>(event.bytes) * 8 / event.seconds : 0;
    return fmt::format("{}  ok  {} in {}  {}  {}\n", host, size_words(event.bytes),
                       duration_words(event.seconds), rate_words(rate), printable(event.digest));
  }
  return fmt::format("{}  {}: {}\n", host, word(event.status), printable(event.cause));
}

std::string text_line(const SummaryEvent& event) {
  auto text = fmt::format("{} ok", event.ok);
  if (event.failed > 0) text += fmt::format(", {} failed", event.failed);
  if (event.refused > 0) text += fmt::format(", {} refused", event.refused);
  if (event.dry_run) return fmt::format("{}; nothing was sent (dry run)\n", text);
  text += fmt::format("; {} in {}", size_words(event.bytes), duration_words(event.seconds));
  if (event.ok > 0 && event.seconds > 0) {
    const auto each = event.goodput_gbps() * 1e9;
    text += fmt::format(", {} to each, {} in all", rate_words(each), rate_words(each * event.ok));
  }
  return text + "\n";
}

std::string complaint(const Error& error) {
  return fmt::format("rdmc_bcast: {}", error.what);
}

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

}  // namespace rdmc::bcast

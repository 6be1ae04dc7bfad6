#include "apps/bcast-cli/events.hpp"

#include <fmt/format.h>

#include <cmath>

#include "apps/program/output.hpp"
#include "apps/units/units.hpp"

namespace rdmc::bcast {
namespace {

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
  return rdmc::json_line(json);
}

std::string json_line(const FabricEvent& event) {
  return rdmc::json_line({{"event", "fabric"}, {"fabric", event.fabric}, {"reason", event.reason}});
}

std::string json_line(const PlanEvent& event) {
  return rdmc::json_line({{"event", "plan"},
                          {"algorithm", event.algorithm},
                          {"block_size", event.block_bytes},
                          {"receivers", event.receivers}});
}

std::string json_line(const StragglerEvent& event) {
  return rdmc::json_line({{"event", "straggler"}, {"host", event.host}});
}

std::string json_line(const ReceiverEvent& event) {
  return rdmc::json_line({{"event", "receiver"},
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
  return rdmc::json_line(json);
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

}  // namespace rdmc::bcast

#include "apps/run/reporter.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "apps/program/output.hpp"

namespace rdmc::run {
namespace {

/// The text that is passed on at once.
constexpr std::size_t kBatchBytes = 64 << 10;
/// The part of a text that a message about a difference shows.
constexpr std::size_t kShownBytes = 200;

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string shown(const std::string& text) {
  return "'" + printable(text.substr(0, kShownBytes)) + (text.size() > kShownBytes ? "...'" : "'");
}

}  // namespace

Result<Reporter> Reporter::start(const Options& options, const std::function<void()>& changed) {
  Reporter reporter(options);
  auto output = Writer::start(STDOUT_FILENO, changed), errors = Writer::start(STDERR_FILENO, changed);
  if (!output) return std::unexpected(std::move(output.error()));
  if (!errors) return std::unexpected(std::move(errors.error()));
  reporter.output_ = std::move(*output);
  reporter.errors_ = std::move(*errors);
  return reporter;
}

void Reporter::started(const replica::ReplicaId& id, pid_t pid, std::optional<double> respawned_after) {
  if (!options_.json) return;
  static const std::string host = host_name();
  Json event{{"event", "started"},
             {"rank", value_of(id.rank)},
             {"replica", id.replica},
             {"pid", pid},
             {"host", host}};
  if (respawned_after) {
    event["respawn"] = true;
    event["milliseconds"] = *respawned_after;
  }
  output_text_ += json_line(event);
}

void Reporter::died(const replica::ReplicaId& id, pid_t pid, const std::string& cause) {
  if (options_.json)
    output_text_ += json_line({{"event", "died"},
                               {"rank", value_of(id.rank)},
                               {"replica", id.replica},
                               {"pid", pid},
                               {"cause", cause}});
  report(fmt::format("replica {} (process {}) has died: {}", to_string(id), pid, cause));
}

void Reporter::output(Rank rank, const OutputPart& part) {
  if (options_.json) {
    Json event{{"event", "output"}, {"rank", value_of(rank)}, {"line", part.text}};
    if (!part.ends_line) event["continues"] = true;
    output_text_ += json_line(event);
  } else {
    const bool continues = unfinished_ == rank;
    if (unfinished_ && !continues) output_text_ += '\n';
    if (options_.label && !continues) output_text_ += std::to_string(value_of(rank)) + ": ";
    output_text_ += part.text;
    if (part.ends_line) output_text_ += '\n';
    unfinished_ = part.ends_line ? std::nullopt : std::optional(rank);
  }
  if (output_text_.size() >= kBatchBytes) flush();
}

void Reporter::error_line(const replica::ReplicaId& id, std::string_view line) {
  errors_text_ += to_string(id) + ": ";
  errors_text_ += line;
  errors_text_ += '\n';
  if (errors_text_.size() >= kBatchBytes) flush();
}

void Reporter::differs(Rank rank, const Difference& difference) {
  const std::string where =
      difference.first_line == difference.last_line
          ? fmt::format("line {}", difference.first_line)
          : fmt::format("one of the lines {} to {}", difference.first_line, difference.last_line);
  const std::string its_text = difference.text ? "wrote " + shown(*difference.text) : "wrote nothing more";
  const std::string printed = difference.printed ? shown(*difference.printed) + " was printed"
                                                 : "the text that was printed is not kept any more";
  report(fmt::format("the output of rank {} differs in {}: replica {} {}, and {}", value_of(rank), where,
                     to_string(replica::ReplicaId{rank, difference.replica}), its_text, printed));
}

void Reporter::differs(const replica::SendDifference& difference) {
  const std::string text = describe(difference);
  if (options_.json) {
    const auto& [context, to, tag] = difference.channel;
    Json versions = Json::array(), minority = Json::array();
    for (const auto& version : difference.versions) {
      Json one{{"replica", version.replica}};
      if (version.sent) {
        one["bytes"] = version.sent->bytes;
        one["digest"] = fmt::format("{:016x}", version.sent->digest);
      }
      versions.push_back(std::move(one));
    }
    replica::for_each_replica(difference.minority(),
                              [&](std::uint32_t replica) { minority.push_back(replica); });
    output_text_ += json_line({{"event", "difference"},
                               {"rank", value_of(difference.source)},
                               {"destination", value_of(to)},
                               {"communicator", replica::communicator_of(context)},
                               {"collective", replica::is_collective(context)},
                               {"tag", tag},
                               {"sequence", difference.sequence},
                               {"versions", std::move(versions)},
                               {"minority", std::move(minority)}});
  }
  report(text);
}

void Reporter::report(std::string_view text) {
  errors_text_ += complaint(text);
}

void Reporter::summary(int code, const RunState& state, std::uint64_t differing, double seconds) {
  if (!options_.json) return;
  const replica::RunCounters& counters = state.counters();
  output_text_ += json_line({{"event", "summary"},
                             {"exit", code},
                             {"deaths", state.deaths()},
                             {"respawns", state.respawns()},
                             {"injected", state.injected()},
                             {"differing", differing},
                             {"differences", state.differences()},
                             {"uncompared", counters.uncompared},
                             {"seconds", seconds},
                             {"messages", counters.messages},
                             {"acknowledgements", counters.acknowledgements},
                             {"syncs", counters.syncs},
                             {"connections", counters.connections}});
}

void Reporter::flush() {
  output_->print(std::exchange(output_text_, {}));
  errors_->print(std::exchange(errors_text_, {}));
}

}  // namespace rdmc::run

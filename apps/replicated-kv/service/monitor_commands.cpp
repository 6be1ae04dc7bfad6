// SLOWLOG and LATENCY: which commands of the clients of this server took long.
#include <algorithm>
#include <array>

#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/service/client_replies.hpp"
#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv {

namespace {

constexpr std::int64_t kUsualSlowEntries = 10;

constexpr auto kSlowLogHelp = std::to_array<std::string_view>({
    "GET [<count>]",
    "    Return the newest entries, by default 10. -1 means all. An entry has: number, time in seconds,",
    "    microseconds, words, address and name of the client.",
    "LEN",
    "    Return the number of entries.",
    "RESET",
    "    Forget all entries.",
});

constexpr auto kLatencyHelp = std::to_array<std::string_view>({
    "DOCTOR",
    "    Say where to look for the time of requests.",
    "HISTOGRAM [<command> ...]",
    "    Return for each command the number of calls that took at most 1, 2, 4, ... microseconds.",
    "HISTORY <event>",
    "    Return an empty array.",
    "LATEST",
    "    Return an empty array: there are no latency events.",
    "RESET [<event> ...]",
    "    Return 0.",
});

void put_slow(const SlowLog::Entry& entry, ReplyWriter& reply) {
  reply.array(6);
  reply.integer(static_cast<std::int64_t>(entry.number));
  reply.integer(entry.seconds);
  reply.integer(static_cast<std::int64_t>(entry.microseconds));
  reply.array(entry.words.size());
  for (const std::string& word : entry.words) reply.bulk(word);
  reply.bulk(entry.address);
  reply.bulk(entry.client);
}

void put_histogram(const CommandCounts& counts, ReplyWriter& reply) {
  reply.map(2);
  reply.bulk("calls");
  reply.integer(static_cast<std::int64_t>(counts.calls));
  reply.bulk("histogram_usec");
  reply.map(static_cast<std::size_t>(
      std::ranges::count_if(counts.buckets, [](std::uint64_t count) { return count > 0; })));
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < counts.buckets.size(); ++i) {
    if (counts.buckets[i] == 0) continue;
    sum += counts.buckets[i];
    reply.integer(std::int64_t{1} << i);
    reply.integer(static_cast<std::int64_t>(sum));
  }
}

}  // namespace

void Service::slowlog(Client&, Arguments words, ReplyWriter& reply) {
  const std::string what = to_lower(words[1]);
  if (what == "help" && words.size() == 2) return help(reply, "SLOWLOG", kSlowLogHelp);
  if (what == "len" && words.size() == 2)
    return reply.integer(static_cast<std::int64_t>(slow_log_.entries().size()));
  if (what == "reset" && words.size() == 2) {
    slow_log_.clear();
    return reply.ok();
  }
  if (what == "get" && words.size() <= 3) {
    std::int64_t most = kUsualSlowEntries;
    if (words.size() == 3) {
      const auto number = integer_or_error(words[2], reply);
      if (!number) return;
      if (*number < -1) return reply.error("ERR count should be greater than or equal to -1");
      most = *number;
    }
    const auto& entries = slow_log_.entries();
    const std::size_t count =
        most < 0 ? entries.size() : std::min(entries.size(), static_cast<std::size_t>(most));
    reply.array(count);
    for (std::size_t i = 0; i < count; ++i) put_slow(entries[i], reply);
    return;
  }
  unknown_subcommand(reply, "SLOWLOG", words[1]);
}

/// There is no monitor of latency events, so there are none.
void Service::latency(Client&, Arguments words, ReplyWriter& reply) {
  const std::string what = to_lower(words[1]);
  if (what == "help") {
    if (words.size() != 2) return wrong_arguments(reply, "latency|help");
    return help(reply, "LATENCY", kLatencyHelp);
  }
  if ((what == "latest" && words.size() == 2) || (what == "history" && words.size() == 3))
    return reply.array(0);
  if (what == "reset") return reply.integer(0);
  if (what == "doctor" && words.size() == 2)
    return reply.verbatim(
        "This server records no latency events. LATENCY HISTOGRAM has the times of commands, and SLOWLOG GET "
        "has the slowest ones. A write also waits for the other servers.");
  if (what != "histogram") return unknown_subcommand(reply, "LATENCY", words[1]);
  std::vector<std::pair<std::string_view, const CommandCounts*>> found;
  const auto all = statistics_.commands();
  const auto add = [&](const auto& one) {
    if (one.second->calls > 0) found.push_back(one);
  };
  if (words.size() == 2) std::ranges::for_each(all, add);
  for (const std::string_view word : words.subspan(2)) {
    const std::string name = to_lower(word);
    for (const auto& one : all)
      if (one.first == name || one.first.starts_with(name + "|")) add(one);
  }
  reply.map(found.size());
  for (const auto& [name, counts] : found) {
    reply.bulk(name);
    put_histogram(*counts, reply);
  }
}

}  // namespace rdmc::kv

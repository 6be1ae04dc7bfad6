// MEMORY: how much memory keys and the whole server need.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/data/hash.hpp"
#include "apps/replicated-kv/data/list.hpp"
#include "apps/replicated-kv/data/set.hpp"
#include "apps/replicated-kv/data/sorted_set.hpp"
#include "apps/replicated-kv/service/client_replies.hpp"
#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv {

namespace {

/// An element of a collection costs about this beside its own bytes.
constexpr std::size_t kSmallElement = 2, kLargeElement = sizeof(Dictionary<Text>::Entry) + 16;
constexpr std::int64_t kUsualSamples = 5;

constexpr auto kMemoryHelp = std::to_array<std::string_view>({
    "DOCTOR",
    "    Say how the memory is.",
    "MALLOC-STATS",
    "    Say where the memory comes from.",
    "PURGE",
    "    Do nothing: memory is given back by itself.",
    "STATS",
    "    Return the memory that the server needs for what.",
    "USAGE <key> [SAMPLES <count>]",
    "    Return about how many bytes the key needs. So many elements are looked at, by default 5. 0 means "
    "all.",
});

/// The bytes of the first elements of a collection: `samples` of them, or all if it is 0.
std::size_t bytes_of_first(Collection& collection, std::size_t samples, std::size_t& looked_at) {
  std::size_t bytes = 0;
  const std::size_t most = samples == 0 ? collection.size() : std::min(samples, collection.size());
  looked_at = most;
  switch (collection.type()) {
    case Type::hash: {
      auto& hash = static_cast<Hash&>(collection);
      for (std::size_t i = 0; i < most; ++i) bytes += hash.at(i).name.size() + hash.at(i).value.size();
      return bytes + most * (hash.has_positions() ? kLargeElement : 2 * kSmallElement);
    }
    case Type::set: {
      auto& set = static_cast<Set&>(collection);
      Set::Digits digits;
      for (std::size_t i = 0; i < most; ++i) bytes += set.at(i, digits).size();
      return bytes + most * (set.has_positions() ? kLargeElement : kSmallElement);
    }
    case Type::sorted_set: {
      auto& set = static_cast<SortedSet&>(collection);
      for (std::size_t i = 0; i < most; ++i) bytes += set.at(i).name.size() + sizeof(double);
      return bytes + most * (set.has_positions() ? 2 * kLargeElement : kSmallElement);
    }
    case Type::list: {
      auto& list = static_cast<List&>(collection);
      auto place = list.begin();
      for (std::size_t i = 0; i < most; ++i, place = list.next(place)) bytes += list.at(place).size();
      return bytes + most * kSmallElement;
    }
    case Type::string: break;
  }
  return bytes;
}

std::size_t bytes_of(Database::Entry& entry, std::size_t samples) {
  std::size_t bytes = sizeof(Database::Entry) + entry.key().size() + 16;
  if (const Text* const text = entry.value.text())
    return bytes + (text->size() > Text::kInlineBytes ? text->size() + sizeof(void*) : 0);
  Collection& collection = *entry.value.collection();
  std::size_t looked_at = 0;
  const std::size_t first = bytes_of_first(collection, samples, looked_at);
  return bytes + Collection::kObjectBytes +
         (looked_at == collection.size()
              ? first
              : static_cast<std::size_t>(static_cast<double>(first) / static_cast<double>(looked_at) *
                                         static_cast<double>(collection.size())));
}

}  // namespace

void Service::memory_usage(Client& client, Arguments words, ReplyWriter& reply) {
  std::int64_t samples = kUsualSamples;
  if (words.size() == 5 && is_word(words[3], "samples")) {
    const auto number = integer_or_error(words[4], reply);
    if (!number) return;
    if (*number < 0) return reply.error(kSyntax);
    samples = *number;
  } else if (words.size() != 3) {
    return reply.error(kSyntax);
  }
  Database::Entry* const entry = databases_->at(client.database).find(words[2], agreed_);
  if (entry == nullptr) return reply.null();
  reply.integer(static_cast<std::int64_t>(bytes_of(*entry, static_cast<std::size_t>(samples))));
}

void Service::memory(Client& client, Arguments words, ReplyWriter& reply) {
  const std::string what = to_lower(words[1]);
  if (what == "usage" && words.size() >= 3) return memory_usage(client, words, reply);
  if (words.size() != 2) return unknown_subcommand(reply, "MEMORY", words[1]);
  const std::size_t used = databases_->memory().used();
  const ProcessFacts process = options_.process ? options_.process() : ProcessFacts{};
  const auto keys = static_cast<std::int64_t>(databases_->keys());
  if (what == "stats") {
    const auto number = [&](std::string_view name, std::uint64_t value) {
      reply.bulk(name);
      reply.integer(static_cast<std::int64_t>(value));
    };
    reply.map(8);
    number("peak.allocated", std::max(used, most_used_));
    number("total.allocated", used);
    number("clients.normal", memory_.total());
    number("keys.count", static_cast<std::uint64_t>(keys));
    number("keys.bytes-per-key", keys == 0 ? 0 : used / static_cast<std::size_t>(keys));
    number("dataset.bytes", used);
    number("rdmc.batches", waiting_bytes_);
    number("rdmc.resident", process.resident_bytes);
    return;
  }
  if (what == "doctor") {
    if (databases_->limit().most == 0)
      return reply.verbatim("There is no limit for keys and values. CONFIG SET maxmemory sets one.");
    return reply.verbatim(fmt::format(
        "Keys and values need {} of {} bytes. The process has {} bytes resident. {} keys were evicted.", used,
        databases_->limit().most, process.resident_bytes, databases_->evicted()));
  }
  // The pools give memory back when a whole chunk is free. There is nothing to do by hand.
  if (what == "purge") return reply.ok();
  if (what == "malloc-stats")
    return reply.verbatim("Small objects come from pools, and the others from malloc.");
  if (what == "help") return help(reply, "MEMORY", kMemoryHelp);
  unknown_subcommand(reply, "MEMORY", words[1]);
}

}  // namespace rdmc::kv

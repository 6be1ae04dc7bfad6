// A server counts this about the commands of its clients: how often each was called and how long it took,
// which errors there were, and the slowest ones. Nothing of it is kept alike at the servers, and no reply of
// a command of the databases follows from it. One thread uses it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "apps/replicated-kv/commands/command.hpp"

namespace rdmc::kv {

/// The calls of one command.
struct CommandCounts {
  /// A call belongs to the first bucket i for which it took at most 2^i microseconds, or to the last one.
  static constexpr std::size_t kBuckets = 24;
  std::uint64_t calls = 0, microseconds = 0;
  std::uint64_t rejected = 0;  ///< that were not executed
  std::uint64_t failed = 0;    ///< whose reply was an error
  std::array<std::uint64_t, kBuckets> buckets{};
};

class Statistics {
 public:
  void executed(std::string_view command, std::uint64_t microseconds, bool has_failed);
  void rejected(std::string_view command);
  /// `code` is the first word of the error reply.
  void error(std::string_view code);
  void reset();

  /// By name. A subcommand has the name "command|subcommand".
  std::map<std::string_view, const CommandCounts*> commands() const;
  const std::map<std::string, std::uint64_t, std::less<>>& errors() const { return errors_; }
  std::uint64_t all_errors() const { return all_errors_; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  CommandCounts& of(std::string_view command);

  std::unordered_map<std::string, CommandCounts, Hash, std::equal_to<>> commands_;
  std::map<std::string, std::uint64_t, std::less<>> errors_;
  std::uint64_t all_errors_ = 0;
};

/// The last commands that took long.
class SlowLog {
 public:
  struct Entry {
    std::uint64_t number = 0;
    std::int64_t seconds = 0;  ///< since 1970
    std::uint64_t microseconds = 0;
    std::vector<std::string> words;  ///< long commands are cut, as Redis does
    std::string address, client;     ///< of the client
  };

  void add(Entry entry, Arguments words, std::size_t most);
  /// Forgets the oldest entries beyond `most`.
  void cut(std::size_t most);
  void clear() { entries_.clear(); }
  /// The newest entry is the first one.
  const std::deque<Entry>& entries() const { return entries_; }

 private:
  std::deque<Entry> entries_;
  std::uint64_t next_number_ = 0;
};

/// The number of events in a second, from a counter that is looked at now and then.
class Rate {
 public:
  /// `now` in milliseconds on the steady clock.
  void look(std::uint64_t count, std::int64_t now);
  std::uint64_t per_second() const { return per_second_; }

 private:
  std::uint64_t count_ = 0, per_second_ = 0;
  std::int64_t looked_at_ = 0;
};

}  // namespace rdmc::kv

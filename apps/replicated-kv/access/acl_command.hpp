// This table says what access control must know about a command: its categories, and which of its words are
// keys or channels. The table has every command and subcommand of Redis 7.0, also those that this service
// does not have. So rules and ACL files that were written for Redis mean the same here. The table is
// constant, and all servers of a service must have the same one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "apps/replicated-kv/commands/command.hpp"

namespace rdmc::kv {

/// The categories of commands (Redis 7.0, "ACL categories"). Each is one bit.
namespace category {
constexpr std::uint32_t kKeyspace = 1U << 0, kRead = 1U << 1, kWrite = 1U << 2, kSet = 1U << 3,
                        kSortedSet = 1U << 4, kList = 1U << 5, kHash = 1U << 6, kString = 1U << 7,
                        kBitmap = 1U << 8, kHyperLogLog = 1U << 9, kGeo = 1U << 10, kStream = 1U << 11,
                        kPubsub = 1U << 12, kAdmin = 1U << 13, kFast = 1U << 14, kSlow = 1U << 15,
                        kBlocking = 1U << 16, kDangerous = 1U << 17, kConnection = 1U << 18,
                        kTransaction = 1U << 19, kScripting = 1U << 20;
}  // namespace category

/// The names of the categories. The index of a name is the number of its bit.
inline constexpr std::array<std::string_view, 21> kCategoryNames = {
    "keyspace", "read",   "write",       "set",       "sortedset",  "list",        "hash",
    "string",   "bitmap", "hyperloglog", "geo",       "stream",     "pubsub",      "admin",
    "fast",     "slow",   "blocking",    "dangerous", "connection", "transaction", "scripting"};

/// Returns the bit of a category, or 0 if there is no such category. Upper and lower case are the same.
std::uint32_t category_of(std::string_view name);

/// These flags say what a command does with a key (Redis 7.0, "Key specifications", "flags").
namespace key_use {
constexpr std::uint16_t kReadOnly = 1, kReadWrite = 2, kOverwrite = 4, kRemove = 8;
/// The value is returned, copied or tested; changed by what it was; added to; or removed.
constexpr std::uint16_t kAccess = 16, kUpdate = 32, kInsert = 64, kDelete = 128;
constexpr std::uint16_t kNotKey = 256, kIncomplete = 512, kVariable = 1024;
// Usual combinations.
constexpr std::uint16_t kReads = kReadOnly | kAccess, kPops = kReadWrite | kAccess | kDelete,
                        kSets = kOverwrite | kUpdate, kUpdates = kReadWrite | kUpdate,
                        kInserts = kReadWrite | kInsert, kChanges = kReadWrite | kAccess | kUpdate,
                        kTakesFrom = kReadWrite | kDelete;
}  // namespace key_use

/// Says where a command has keys, and what it does with them (Redis 7.0, "Key specifications").
struct KeySpec {
  enum class Begin : std::uint8_t { index, keyword, unknown };
  enum class Find : std::uint8_t { range, number, unknown };

  std::uint16_t uses = 0;  ///< of key_use; 0 if there is no specification
  Begin begin = Begin::unknown;
  Find find = Find::unknown;
  /// The index of the first key or of the number of keys. After a keyword: the word at which the search
  /// begins, which counts from the end if it is negative.
  int at = 0;
  std::string_view keyword = {};
  /// `last` is the last key of a range, relative to the first one, or from the end if it is negative. `limit`
  /// n means that only the first n-th part of the words are keys.
  int last = 0, step = 1, limit = 0;
};

struct AclCommand {
  std::string_view name;  ///< in lower case; of a subcommand "config|get"
  int arity;              ///< as in Command
  std::uint32_t categories;
  std::array<KeySpec, 3> keys{};
  /// The index of the command in all_acl_commands(), and of the command that this is a subcommand of, or -1.
  int id = 0, parent = -1;
  bool has_subcommands = false;

  bool is_subcommand() const { return parent >= 0; }
};

/// All commands by name. The subcommands of a command follow it.
std::span<const AclCommand> all_acl_commands();
/// Finds "get" or "config|get". Upper and lower case are the same. Returns null if there is none.
const AclCommand* find_acl_command(std::string_view name);
/// Finds the command of a request, or its subcommand. Returns the command if it has no such subcommand, and
/// null if there is no such command.
const AclCommand* acl_command_of(Arguments words);
/// The subcommands that follow `command`.
std::span<const AclCommand> subcommands_of(const AclCommand& command);

/// A word of a request that is a key.
struct KeyWord {
  std::size_t index;
  std::uint16_t uses;  ///< of key_use
};
/// The words that are keys. Words that are missing are left out.
std::vector<KeyWord> key_words(const AclCommand& command, Arguments words);

/// A word of a request that is a channel which the user must be permitted.
struct ChannelWord {
  std::size_t index;
  bool is_pattern;
};
std::vector<ChannelWord> channel_words(const AclCommand& command, Arguments words);

// The rows of the table, in no order.
std::span<const AclCommand> acl_rows_of_data();
std::span<const AclCommand> acl_rows_of_servers();

}  // namespace rdmc::kv

// Commands. A command of the databases is a function of the databases, its words, the time and a random
// number. It has no other input, so that replicas agree (rdmc/replicated_state.hpp). Commands of the client,
// such as SELECT, are only named here: Service executes them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/replicated-kv/data/databases.hpp"
#include "apps/replicated-kv/resp/reply_writer.hpp"

namespace rdmc::kv {

/// The words of a request. The first word is the name of the command.
using Arguments = std::span<const std::string_view>;

/// Takes the messages of PUBLISH.
class Publisher {
 public:
  virtual ~Publisher() = default;
  /// Returns the number of receivers at this server.
  virtual std::size_t publish(std::string_view channel, std::string_view message) = 0;
};

/// The execution of a command.
struct Call {
  Databases& databases;
  std::uint32_t database;  ///< the number of the selected database
  Arguments words;
  Milliseconds now;
  std::uint64_t random;
  ReplyWriter& reply;
  Publisher& publisher;

  /// The user may read all keys. SORT can name keys that are not among the words.
  bool may_read_all_keys = true;
  /// The command is a read of a client of this server.
  bool counts_hits = false;

  // For commands that can wait (flag::kWaits).
  bool may_wait = false;  ///< the command may wait
  std::optional<std::string_view>
      ready_key{};        ///< the command has waited for this key, and looks at no other
  Arguments waits_for{};  ///< a result: the keys that it waits for, without a reply

  Database& db() const { return databases.at(database); }
  /// Finds a key. This is a use of the key.
  Database::Entry* find(std::string_view key) const {
    Database::Entry* const found = db().find(key, now);
    if (found != nullptr) databases.use(*found);
    if (counts_hits) ++(found != nullptr ? databases.hits : databases.misses);
    return found;
  }
  /// Finds a key without using it.
  Database::Entry* look_at(std::string_view key) const { return db().find(key, now); }
  Database::Entry& get_or_insert(std::string_view key) const {
    Database::Entry& entry = db().get_or_insert(key, now);
    databases.use(entry);
    return entry;
  }
  void changed(std::string_view key) const { databases.changed(database, key); }
  void erase(Database::Entry& entry) const { databases.erase(database, entry); }
};

namespace flag {
/// Either of these two: the command executes on the databases.
constexpr std::uint32_t kRead = 1, kWrite = 2;
/// Service executes the command for the client.
constexpr std::uint32_t kClient = 4;
/// The command takes a constant or logarithmic time. For COMMAND.
constexpr std::uint32_t kFast = 8;
/// The command can need more memory.
constexpr std::uint32_t kGrows = 16;
/// For an operator.
constexpr std::uint32_t kAdmin = 32;
/// The command is not permitted in a transaction.
constexpr std::uint32_t kNotInMulti = 64;
/// Executes at once in a client that has begun a transaction, instead of being queued.
constexpr std::uint32_t kInMulti = 128;
constexpr std::uint32_t kPubSub = 256;
/// A client may give the command before AUTH.
constexpr std::uint32_t kBeforeAuth = 512;
/// The reply of the read depends on the present time.
constexpr std::uint32_t kUsesTime = 1024;
/// A client with RESP2 may give the command while it has subscriptions.
constexpr std::uint32_t kWhileSubscribed = 2048;
/// The command waits until it finds something. Then it is executed again.
constexpr std::uint32_t kWaits = 4096;
}  // namespace flag

struct Command {
  std::string_view name;  ///< in lower case
  /// The number of words. If it is negative, at least -arity words.
  int arity;
  std::uint32_t flags;
  /// The words that are keys: from `first` to `last`, each `step`-th one. `last` counts from the end if it is
  /// negative. All are 0 if there is no key. These are for COMMAND; key_words() finds all keys.
  int first = 0, last = 0, step = 0;
  void (*run)(Call&) = nullptr;

  bool has(std::uint32_t flags_asked) const { return (flags & flags_asked) != 0; }
};

/// All commands, by name.
std::span<const Command* const> all_commands();
/// Finds a command. Upper and lower case are the same. Returns null if there is none.
const Command* find_command(std::string_view name);
/// Returns true if the command may have this number of words.
bool fits(const Command& command, std::size_t words);
/// The same for an arity.
bool fits(int arity, std::size_t words);

// The commands of each file of this folder.
std::span<const Command> string_commands();
std::span<const Command> key_commands();
std::span<const Command> hash_commands();
std::span<const Command> list_commands();
std::span<const Command> set_commands();
std::span<const Command> sorted_set_commands();
std::span<const Command> sorted_set_range_commands();
std::span<const Command> sorted_set_algebra_commands();
std::span<const Command> blocking_commands();
std::span<const Command> bit_commands();
std::span<const Command> bit_field_commands();
std::span<const Command> dump_commands();
std::span<const Command> hyperloglog_commands();
std::span<const Command> sort_commands();
std::span<const Command> client_commands();

}  // namespace rdmc::kv

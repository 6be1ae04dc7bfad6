// The events of a replicated service: the requests of clients in the order in which a server has received
// them. A server puts the requests of one turn of its loop into one batch. A batch that is longer than an
// event is cut into several events. The functions are pure.
//
//   event := server, has_more (0 or 1), a part of a batch
//   batch := entry ...
//   entry := kind, then what the kind needs
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "apps/replicated-kv/data/memory_limit.hpp"
#include "apps/replicated-kv/data/saved.hpp"
#include "apps/replicated-kv/resp/request_parser.hpp"

namespace rdmc::kv {

using Bytes = std::vector<std::byte>;

/// The numbers are on the wire.
enum class EntryKind : std::uint8_t {
  command = 0,       ///< client, user, command
  transaction = 1,   ///< client, user, uses RESP3, number of commands, commands
  watch = 2,         ///< client, user, database, number of keys, keys
  unwatch = 3,       ///< client; also for a client that is gone
  server_gone = 4,   ///< the server whose clients are gone
  stop_waiting = 5,  ///< client, with an error (1) or because it has waited long enough (0)
  first_users = 6,   ///< 0 or the number of the users that these replace (Users::id), and the users of the
                     ///< command line, as bytes (Users::save)
  evict = 8,         ///< 0, number of keys, for each one its database and its name
  first_limit = 9,   ///< 0, the limit of memory that the first main has
};

/// A command in an entry. The words are valid as long as the memory of the batch.
struct EncodedCommand {
  std::uint32_t database = 0;
  bool is_resp3 = false;
  /// Only the server that has submitted the command executes it: it changes nothing.
  bool is_local = false;
  Words words;
};

void put_command(Bytes& out, std::uint32_t database, bool is_resp3, bool is_local,
                 std::span<const std::string_view> words);
void put_limit(Bytes& out, const MemoryLimit& limit);
MemoryLimit take_limit(VarintReader& in);
/// Reads what put_command() has written. `command` keeps its memory.
void take_command(VarintReader& in, EncodedCommand& command);

}  // namespace rdmc::kv

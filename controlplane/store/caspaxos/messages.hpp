// Between bytes and what proposers and acceptors say to each other, with every bound checked; and the records
// of an acceptor's journal. Stateless; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "controlplane/store/caspaxos/types.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::store {

/// Asks how a node stands.
struct StateRequest {
  friend bool operator==(const StateRequest&, const StateRequest&) = default;
};
/// Asks what has been accepted; promises nothing.
struct Query {
  std::string name;
  std::uint64_t epoch = 0;
  friend bool operator==(const Query&, const Query&) = default;
};
/// A Query of all registers of groups.
struct ListQuery {
  std::uint64_t epoch = 0;
  friend bool operator==(const ListQuery&, const ListQuery&) = default;
};
/// Phase 1: nothing lower is to be accepted any more.
struct Prepare {
  std::string name;
  Ballot ballot;
  friend bool operator==(const Prepare&, const Prepare&) = default;
};
/// Phase 2.
struct Accept {
  std::string name;
  Accepted proposal;
  friend bool operator==(const Accept&, const Accept&) = default;
};
struct Watch {
  std::string name;
  friend bool operator==(const Watch&, const Watch&) = default;
};
/// Asks a node without state to take part in a first configuration, and in no earlier one any more.
struct Vote {
  Configuration configuration;
  friend bool operator==(const Vote&, const Vote&) = default;
};
/// Tells of a configuration that was agreed.
struct Adopt {
  Configuration configuration;
  friend bool operator==(const Adopt&, const Adopt&) = default;
};
/// Tells of a configuration that was agreed, and asks for the state that it begins with.
struct StateTransfer {
  Configuration configuration;
  friend bool operator==(const StateTransfer&, const StateTransfer&) = default;
};
/// The operator's word: what this node keeps is all that is left. The node refuses while a majority answers
/// under its old ids, unless it is to be forced.
struct Survive {
  bool force = false;
  friend bool operator==(const Survive&, const Survive&) = default;
};

struct Request {
  std::uint64_t id = 0;
  std::variant<StateRequest, Query, ListQuery, Prepare, Accept, Watch, Vote, Adopt, StateTransfer, Survive>
      body;
};

enum class Refused : std::uint8_t {
  not_serving,   ///< the node is not part of the asked configuration, or not yet
  stale,         ///< the asked configuration is over
  behind,        ///< the asked configuration is newer than the node's
  sealed,        ///< a newer configuration may have been agreed
  promised,      ///< a higher ballot was promised
  full,          ///< the node keeps as much as it may
  busy,          ///< too many answers wait for the disk
  out_of_range,  ///< the ballot's counter leaps
};
inline constexpr std::uint32_t kRefusals = 8;

struct Refusal {
  Refused reason{};
  Ballot promised;   ///< what was promised, if that is the reason
  std::string text;  ///< for people; may be empty
  friend bool operator==(const Refusal&, const Refusal&) = default;
};
struct Done {
  friend bool operator==(const Done&, const Done&) = default;
};
/// What an acceptor keeps for groups, of which epoch.
struct Contents {
  std::uint64_t epoch = 0;
  Registers registers;
  friend bool operator==(const Contents&, const Contents&) = default;
};

enum class Stage : std::uint8_t {
  fresh,    ///< it has no state, and is not part of a configuration
  joining,  ///< it knows of a configuration that it is to be part of, and gathers the state
  serving,
  replaced,  ///< a configuration without it has taken the place of its own
  failed,    ///< its disk has failed it, or it ran out of memory
};
inline constexpr std::uint32_t kStages = 5;

struct NodeState {
  Stage stage{};
  std::uint64_t epoch = 0;  ///< of the configuration that it has state of
  Configuration vote;
  std::string text;  ///< why it does not serve; for people
  friend bool operator==(const NodeState&, const NodeState&) = default;
};
/// The register may have changed, to a view of this epoch.
struct Hint {
  std::string name;
  std::uint64_t epoch = 0;
  friend bool operator==(const Hint&, const Hint&) = default;
};

struct Reply {
  std::uint64_t id = 0;
  Id acceptor;
  Configuration known;  ///< epoch 0: the node says nothing of it
  std::variant<Refusal, Accepted, Done, Contents, NodeState, Hint> body;
};

/// The longest. All that an acceptor may keep fits into one, with the names of the registers.
inline constexpr std::uint32_t kMostMessageBytes = 16 << 20;

Bytes encode(const Request& request);
Bytes encode(const Reply& reply);
/// Errors: protocol_error.
Result<Request> decode_request(std::span<const std::byte> bytes);
Result<Reply> decode_reply(std::span<const std::byte> bytes);

/// A configuration as its register keeps it.
Bytes encode(const Configuration& configuration);
Result<Configuration> decode_configuration(std::span<const std::byte> bytes);

/// A part of what an acceptor keeps: `whole` stands for everything, else what is named takes the place of
/// what was there.
struct JournalEntry {
  bool whole = false;
  Durable kept;
};
Bytes encode(const JournalEntry& entry);
/// Errors: protocol_error.
Result<JournalEntry> decode_journal_entry(std::span<const std::byte> bytes);
/// Applies a record to what came before it.
void apply(JournalEntry entry, Durable& to);

}  // namespace rdmc::store

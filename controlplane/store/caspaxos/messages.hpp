// Encodes and decodes the messages between proposers and acceptors, and the entries of an acceptor's journal.
// Decoding checks every limit. The functions have no state. Any thread may call them.
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

/// Asks for the state of a node. The answer is a NodeState.
struct StateRequest {
  friend bool operator==(const StateRequest&, const StateRequest&) = default;
};
/// Asks which proposal the acceptor has accepted for a register. The acceptor promises nothing.
struct Query {
  std::string name;
  std::uint64_t epoch = 0;
  friend bool operator==(const Query&, const Query&) = default;
};
/// Asks for the accepted proposals of the registers of all groups. The acceptor promises nothing.
struct ListQuery {
  std::uint64_t epoch = 0;
  friend bool operator==(const ListQuery&, const ListQuery&) = default;
};
/// Phase 1: requests the acceptor's promise that it accepts no lower ballot.
struct Prepare {
  std::string name;
  Ballot ballot;
  friend bool operator==(const Prepare&, const Prepare&) = default;
};
/// Phase 2: requests that the acceptor accepts the proposal.
struct Accept {
  std::string name;
  Accepted proposal;
  friend bool operator==(const Accept&, const Accept&) = default;
};
struct Watch {
  std::string name;
  friend bool operator==(const Watch&, const Watch&) = default;
};
/// Requests that a node without state takes part in this first configuration, and no longer in any earlier
/// one.
struct Vote {
  Configuration configuration;
  friend bool operator==(const Vote&, const Vote&) = default;
};
/// Reports a configuration that was agreed.
struct Adopt {
  Configuration configuration;
  friend bool operator==(const Adopt&, const Adopt&) = default;
};
/// Reports a configuration that was agreed, and requests the state with which it begins.
struct StateTransfer {
  Configuration configuration;
  friend bool operator==(const StateTransfer&, const StateTransfer&) = default;
};
/// The operator's command that makes this node the surviving node. The node's state then becomes the state of
/// the whole store. If `force` is false, the node refuses if a majority answers and still has its state.
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
  not_serving,   ///< The node is not part of the configuration of the request, or is not active in it yet.
  stale,         ///< A later configuration has replaced the configuration of the request.
  behind,        ///< The configuration of the request is newer than the configuration of the node.
  sealed,        ///< The acceptor is sealed, so a newer configuration may have been agreed.
  promised,      ///< The acceptor has promised a higher ballot.
  full,          ///< The node has reached its limit of registers or bytes.
  busy,          ///< Too many answers wait for the disk, or another Survive is being processed.
  out_of_range,  ///< The ballot's counter, the value or the epoch is not allowed.
};
inline constexpr std::uint32_t kRefusals = 8;

struct Refusal {
  Refused reason{};
  Ballot promised;   ///< The promised ballot, if `reason` is Refused::promised.
  std::string text;  ///< A text for people. May be empty.
  friend bool operator==(const Refusal&, const Refusal&) = default;
};
struct Done {
  friend bool operator==(const Done&, const Done&) = default;
};
/// The registers of groups that an acceptor keeps, and the epoch of its active configuration.
struct Contents {
  std::uint64_t epoch = 0;
  Registers registers;
  friend bool operator==(const Contents&, const Contents&) = default;
};

enum class Stage : std::uint8_t {
  fresh,    ///< The node has no state, and is not part of a configuration.
  joining,  ///< The node is part of an agreed configuration, and is still collecting the state for it.
  serving,
  replaced,  ///< A configuration without this node has replaced the node's own configuration.
  failed,    ///< The node's disk has failed, or the node ran out of memory.
};
inline constexpr std::uint32_t kStages = 5;

struct NodeState {
  Stage stage{};
  std::uint64_t epoch = 0;  ///< The epoch of the configuration whose state the node has.
  Configuration vote;
  std::string text;  ///< The reason why the node does not serve, for people.
  friend bool operator==(const NodeState&, const NodeState&) = default;
};
/// Reports that the register may have changed. `epoch` is the epoch of the new view.
struct Hint {
  std::string name;
  std::uint64_t epoch = 0;
  friend bool operator==(const Hint&, const Hint&) = default;
};

struct Reply {
  std::uint64_t id = 0;
  Id acceptor;
  /// A configuration that the node knows to be agreed. Epoch 0 if the node reports none.
  Configuration known;
  std::variant<Refusal, Accepted, Done, Contents, NodeState, Hint> body;
};

/// The size of the longest message. All registers that an acceptor may keep fit into one message, with their
/// names.
inline constexpr std::uint32_t kMostMessageBytes = 16 << 20;

Bytes encode(const Request& request);
Bytes encode(const Reply& reply);
/// Decode a message. Errors: protocol_error.
Result<Request> decode_request(std::span<const std::byte> bytes);
Result<Reply> decode_reply(std::span<const std::byte> bytes);

/// Encodes a configuration as the value of the configuration register.
Bytes encode(const Configuration& configuration);
Result<Configuration> decode_configuration(std::span<const std::byte> bytes);

/// A change of the state that an acceptor keeps. If `whole` is true, `kept` is the complete state. Otherwise
/// the values in `kept` replace the earlier values.
struct JournalEntry {
  bool whole = false;
  Durable kept;
};
Bytes encode(const JournalEntry& entry);
/// Decodes a journal entry. Errors: protocol_error.
Result<JournalEntry> decode_journal_entry(std::span<const std::byte> bytes);
/// Applies an entry to `to`, the state that results from all earlier entries.
void apply(JournalEntry entry, Durable& to);

}  // namespace rdmc::store

// One message on its way through one member: which blocks may be written to whom now, which are due from
// whom, which slots are free again. A pure state machine - no clock, no I/O, no allocation after create() and
// set_memory() - driven by one thread; it holds no payload, only block numbers and offsets into memory that
// the driver owns.
//
// Root:     create, set_length, set_memory, on_available ...; drain poll_write; on_write_complete.
// Receiver: create, (offer_arena), set_length when announced, set_memory; drain poll_grant,
// poll_expected_write and poll_write;
//           on_block, on_consumed, on_write_complete. Grants from destinations are accepted at any time after
//           create.
// A message over a list of missing blocks is an ordinary message over virtual blocks; the mapping is the
// store's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/relay/block_map.hpp"
#include "dataplane/relay/grant.hpp"
#include "dataplane/relay/schedule.hpp"
#include "dataplane/relay/send_window.hpp"
#include "dataplane/relay/wait.hpp"

namespace rdmc::relay {

inline constexpr std::uint32_t kDefaultWritesInFlight = 64, kMaxWritesInFlight = 4096;
/// A straggler is told of at most so many omitted blocks at the same time, beside the writes in flight.
inline constexpr std::uint32_t kMostOmissions = 64;
/// Steps of one source that may be open, from the earliest block that is late to the newest that comes.
inline constexpr std::uint32_t kMostOvertaken = 4096;

struct RelayConfig {
  Algorithm algorithm = Algorithm::binomial_pipeline;
  Rank rank{};
  std::uint32_t members = 1;
  Racks racks{};                  ///< nothing known, or all members
  std::uint32_t block_bytes = 1;  ///< 1 ... 2^31 - 1
  /// Over all destinations, 1 ... kMaxWritesInFlight, and unless all blocks have slots no more than a quarter
  /// of the slots, or 16 if that is more.
  std::uint32_t max_writes_in_flight = kDefaultWritesInFlight;
  std::uint32_t expected_writes_ahead =
      16;                     ///< poll_expected_write tells so many writes per source in advance, >= 1
  std::uint16_t slot_id = 0;  ///< this message's name in the immediates that reach this member
  /// So many members with the highest ranks are stragglers: they send to nobody but each other, and blocks
  /// may be omitted for them. Fewer than `members`. In the plan no other member may depend on them.
  std::uint32_t stragglers = 0;
};

/// The member's memory for the message: `slots` blocks in a row, block b in slot b mod slots. At least as
/// many slots as blocks is the whole message in memory, else it is a ring. Address and key are what sources
/// are told (a root leaves them zero).
struct Memory {
  std::uint64_t slots = 0;
  std::uint64_t remote_address = 0;
  RemoteKey key{};
};

/// A WRITE with immediate to post now. One without bytes for a block that has some tells a straggler that
/// this block will not come: it is omitted.
struct BlockWrite {
  Rank to{};
  std::uint64_t block = 0;
  std::uint64_t local_offset = 0;  ///< in the member's memory; 0 when from_arena
  std::uint64_t remote_address = 0;
  std::uint32_t bytes = 0;  ///< exact: never more than the message has; 0 where it is omitted
  RemoteKey key{};
  std::uint32_t immediate = 0;
  bool from_arena = false;  ///< read it from the first-block arena: place_first_block() was not called yet
  bool into_arena =
      false;  ///< the destination may not know the length yet: a SEND with it must go before this
};

/// The next write that `from` will make here, of `bytes` bytes to `offset` in the member's memory.
struct ExpectedWrite {
  Rank from{};
  std::uint64_t block = 0;
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
};

class Relay {
 public:
  /// Errors: invalid_argument, naming the field.
  static Result<Relay> create(const RelayConfig& config);

  // -- what the message is, and where it lies --

  /// The exact size of the message; known to the root from the start, to a receiver by announcement. 0 is
  /// allowed and travels as one block of no bytes. Repeating the same value is harmless. Errors:
  /// protocol_error (another value than before), invalid_argument (more than kMaxBlocks blocks).
  Result<void> set_length(std::uint64_t bytes);
  /// Whether set_length(bytes) and then set_memory with so many slots would succeed, and if not, their error.
  Result<void> accepts(std::uint64_t bytes, std::uint64_t slots) const;
  bool has_length() const { return blocks_ != 0; }

  /// Once, after set_length. Errors: invalid_argument (fewer slots than blocks and than
  /// Schedule::minimum_slots() with which a ring could starve or deadlock the pipeline; before the length;
  /// twice).
  Result<void> set_memory(const Memory& memory);

  /// Receiver with first_block_arena: where one block of block_bytes may be written. poll_grant then grants
  /// it to the first source. Errors: invalid_argument (the root's; twice or too late; an algorithm whose
  /// first source needs the length).
  Result<void> offer_arena(std::uint64_t remote_address, RemoteKey key);
  /// The driver has moved the first block from the arena to its slot: from now on it is read from there. With
  /// a copy at any time after it arrived and set_memory; with an exchange of pages only while
  /// !first_block_busy().
  void place_first_block();
  /// The first block has arrived in the arena and was not placed. It need not be the first to arrive: once
  /// memory is granted, another source may be faster.
  bool first_block_in_arena() const { return arena_ == Arena::holds_first_block; }
  /// It is granted and has not arrived: the first source's first write will land there.
  bool first_block_awaited() const { return arena_ == Arena::granted; }
  /// A write that reads the arena is in flight.
  bool first_block_busy() const { return arena_writes_in_flight_ != 0; }
  /// Neither this message's first block nor a write of it needs the arena any longer: it may be offered for
  /// another.
  bool arena_is_free() const { return arena_ == Arena::emptied && !first_block_busy(); }
  /// Index of the block that arrives in the arena; needs the length.
  std::uint64_t first_block() const;
  /// Who sends it, and tells us the length. Needs the length where first_source_needs_length(). Nobody for
  /// the root.
  std::optional<Rank> first_source() const;

  std::uint64_t length() const { return length_; }
  std::uint64_t block_count() const {
    return blocks_;
  }  ///< max(1, ceil(length / block_bytes)); 0 before the length
  std::uint32_t block_length(std::uint64_t block) const;
  std::uint64_t offset_of(std::uint64_t block) const;  ///< of its slot in the member's memory, in bytes
  const Schedule& schedule() const { return schedule_; }

  // -- events --

  /// Root: blocks [0, limit) can be read from the memory. Only grows; beyond block_count() counts as that.
  void on_available(std::uint64_t limit);
  /// `from` grants us its memory. Errors: protocol_error (not a destination of ours, shrinking, changed
  /// memory, addresses that overflow).
  Result<void> on_grant(Rank from, const BlockGrant& grant);
  /// A WRITE with immediate from `from` is complete in our memory. Returns the block's 64-bit index. Errors:
  /// protocol_error for anything but a block that the schedule says is due from `from`, with its exact
  /// length (at a straggler, also without bytes: it is_omitted()), inside what we granted; nothing has
  /// changed then. A block may overtake kMostOvertaken others of its source.
  Result<std::uint64_t> on_block(Rank from, std::uint32_t immediate, std::uint32_t byte_count);
  /// The write of `block` to `to` that poll_write gave out was acknowledged.
  void on_write_complete(Rank to, std::uint64_t block);
  /// Receiver: the application does not need the block in memory any longer (at once when memory is whole;
  /// when it is on disk when a ring). Any order, once per block, also for those that are omitted.
  void on_consumed(std::uint64_t block);

  // -- actions: drain each until false after every batch of events --

  /// The next write to post: in schedule order, except that writes to others may overtake one whose block has
  /// not arrived or whose destination is slow, and so may writes to the same one if the block was overtaken
  /// on its way here, too. Post them in this order, and let them leave in this order.
  bool poll_write(BlockWrite& write);
  /// The next grant to send.
  bool poll_grant(Rank& to, BlockGrant& grant);
  /// The next write to expect, once each, in order per source, when it has been granted: post a receive for
  /// it and pass the hint to the queue pair. The arena's block is not among them: offer_arena's caller posts
  /// for that.
  bool poll_expected_write(ExpectedWrite& expected_write);

  // -- state --

  /// Blocks below are relayed (their scheduled writes acknowledged) and consumed: their slots may be used
  /// again.
  std::uint64_t released_limit() const { return released_; }
  /// Those that are omitted count.
  std::uint64_t blocks_held() const { return received_; }
  /// Which ones, of a message that is whole in memory; what lies in the arena is not among them.
  BlockMap held() const;
  /// `block` has not been released yet, and nobody will send it here in this message.
  bool is_omitted(std::uint64_t block) const;
  /// The destinations that hold up the slots here, or soon will, in the order of their ranks, and no
  /// stragglers. Blocks that have come, and that such a destination has not acknowledged, fill three eighths
  /// of the slots; or an eighth, and of the blocks that became due to it between two looks it has taken less
  /// than three quarters. A call at which few blocks are due since the last look is no look. At a root only
  /// those blocks count that are older than one that it has passed to another destination. To be called every
  /// tenth of a second or so.
  std::vector<Rank> find_lagging();
  std::uint32_t writes_in_flight() const { return writes_in_flight_; }
  /// Of this object and all it holds: depends on members, slots and writes in flight, not on the message. Who
  /// sends to a straggler keeps up to 4096 sends.
  std::size_t state_bytes() const;
  /// Every block is here or omitted (root: was made available).
  bool is_delivered() const { return blocks_ != 0 && received_ == blocks_; }
  /// Delivered, consumed, and all that we had to relay is acknowledged.
  bool is_complete() const { return blocks_ != 0 && released_ == blocks_ && window_.is_empty(); }
  /// What keeps us from our next move; nothing before set_memory, after the end, or when the next poll gives
  /// an action.
  std::optional<Wait> wait() const;

  /// Polls give nothing any more; events are ignored, except that on_write_complete still counts, so that
  /// writes_in_flight() says when the memory is quiet.
  void cancel() { cancelled_ = true; }

 private:
  /// A member that sends to us: which of its writes we saw last, foretold last, and permit.
  struct Source {
    Rank rank{};
    std::optional<std::uint64_t> receive_step;   ///< of its next write; nothing after the last
    std::optional<std::uint64_t> expected_step;  ///< of its next write that poll_expected_write has not told
    std::uint32_t expected_writes = 0;           ///< told and not yet arrived
    std::uint64_t granted = 0;
    std::uint64_t newest = 0;  ///< step behind that of the latest of its blocks that came
  };
  /// A member that we send to: what it has granted.
  struct Destination {
    Rank rank{};
    std::optional<BlockGrant> memory;
    std::optional<BlockGrant> arena;
    bool started = false;  ///< its first write was posted
    bool is_straggler = false;
    bool is_behind = false;       ///< the block that omit_for_stragglers() looked at last is omitted
    bool falls_behind = false;    ///< it took less than three quarters of what was due at the last look
    std::uint32_t writes = 0;     ///< in flight, but those of omitted blocks
    std::uint32_t omissions = 0;  ///< writes of omitted blocks in flight
    std::uint64_t writes_done = 0;
    std::uint64_t due_before = 0, done_before = 0;  ///< writes that were due, and done, at the last look
    std::uint64_t held_up_in = 0;  ///< the poll_write in which a block for it was found late, or it was slow
  };
  enum class Arena : std::uint8_t { none, offered, granted, holds_first_block, emptied };

  explicit Relay(const RelayConfig& config);

  // relay.cpp
  Result<std::uint64_t> count_blocks(std::uint64_t bytes) const;
  Result<void> check_slots(std::uint64_t slots, std::uint64_t blocks) const;
  std::uint64_t least_slots(std::uint64_t blocks) const;
  bool holds(std::uint64_t block) const;
  void release();
  // relay_receive.cpp
  std::uint64_t block_at(std::uint64_t step) const;
  std::optional<std::uint64_t> step_of(const Source& source, std::uint32_t immediate) const;
  void note_overtaken(Source& source, std::uint64_t step);
  void skip_held(Rank source, std::optional<std::uint64_t>& step) const;
  void skip_arena_landing();
  Source* find_source(Rank rank);
  // relay_send.cpp
  void extend_window();
  bool was_overtaken(std::uint64_t block) const;
  bool can_write(const Destination& destination, std::uint64_t block) const;
  bool is_behind(const Destination& destination, std::uint64_t block) const;
  void omit_for_stragglers();
  std::uint32_t most_writes() const;
  std::uint64_t backlog_of(std::uint32_t destination) const;
  bool is_straggler(Rank rank) const { return value_of(rank) >= config_.members - config_.stragglers; }
  std::uint32_t most_writes_to(const Destination& destination) const;
  void fill_write(Destination& destination, SendWindow::Send& send, BlockWrite& write);
  // relay_wait.cpp
  std::optional<Wait> send_wait() const;

  RelayConfig config_;
  Schedule schedule_;
  Transfer first_;  ///< our first receive, until set_length() in a message of many blocks; unused by the root
  std::uint64_t length_ = 0;
  std::uint64_t blocks_ = 0;
  std::uint64_t steps_ = 0;

  std::optional<Memory> memory_;
  std::uint64_t grant_batch_ = 1;
  Arena arena_ = Arena::none;
  std::uint64_t arena_address_ = 0;
  RemoteKey arena_key_{};

  std::uint64_t reached_ = 0;   ///< one more than the highest block held
  std::uint64_t received_ = 0;  ///< blocks held, or once held
  std::uint64_t released_ = 0;
  std::vector<bool> held_;      ///< by slot; receivers only
  std::vector<bool> consumed_;  ///< by slot; receivers only
  /// By slot; receivers only: not here, though a later one of its source is. A packet of it was lost, here or
  /// on its way to there.
  std::vector<bool> overtaken_;
  std::vector<bool> omitted_;  ///< by slot; stragglers only

  std::vector<Source> sources_;
  std::vector<Destination> destinations_;
  SendWindow window_;
  std::uint64_t write_polls_ = 0;
  std::uint64_t written_ = 0;  ///< one more than the highest block whose write was acknowledged
  std::uint32_t writes_in_flight_ = 0;
  std::uint32_t arena_writes_in_flight_ = 0;
  std::uint32_t omissions_in_flight_ = 0;
  bool has_stragglers_ = false;  ///< among its destinations
  bool cancelled_ = false;
};

}  // namespace rdmc::relay

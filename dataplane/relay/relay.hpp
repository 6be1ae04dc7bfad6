// Controls one message at one member. Decides which blocks may be written to which member now, which blocks
// are expected from which member, and which slots are free again. A Relay is a pure state machine: it has no
// clock and no I/O, and it allocates no memory after create() and set_memory(). One thread, the driver, calls
// it. A Relay contains no payload, but only block numbers and offsets into memory that the driver owns.
//
// The order of the calls at the root: create, set_length, set_memory, and then on_available whenever more
// blocks can be read. The driver calls poll_write until it returns false, and it calls on_write_complete.
//
// The order of the calls at a receiver: create, optionally offer_arena, set_length when the length is
// announced, set_memory. The driver calls poll_grant, poll_expected_write and poll_write until they return
// false, and it calls on_block, on_consumed and on_write_complete.
//
// Grants from destinations are accepted at any time after create. A message over a list of missing blocks is
// an ordinary message over virtual blocks. The message store maps virtual blocks to blocks of the file.
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
/// The largest number of omitted blocks that a straggler is informed about at the same time. The writes that
/// inform it do not count as writes in flight.
inline constexpr std::uint32_t kMostOmissions = 64;
/// A block may arrive out of order only if its step is among this number of steps of its source, counted from
/// the earliest step whose block is missing.
inline constexpr std::uint32_t kMostOvertaken = 4096;

/// The largest number of expected writes that poll_expected_write() has returned for a source and that have
/// not arrived.
inline constexpr std::uint32_t kMostExpectedWrites = 16;

struct RelayConfig {
  Algorithm algorithm = Algorithm::binomial_pipeline;
  Rank rank{};
  std::uint32_t members = 1;
  Racks racks{};                  ///< the racks of all members, or racks that are not known
  std::uint32_t block_bytes = 1;  ///< 1 ... 2^31 - 1
  /// The largest number of writes in flight over all destinations, 1 ... kMaxWritesInFlight. Unless all
  /// blocks have slots, the number is also limited to a quarter of the slots, or to 16 if that is more.
  std::uint32_t max_writes_in_flight = kDefaultWritesInFlight;
  std::uint16_t slot_id = 0;  ///< this message's number in the immediates that are sent to this member
  /// The number of stragglers, less than `members`. They are the members with the highest ranks. They send
  /// only to each other, and blocks may be omitted for them. In the plan, no other member may depend on a
  /// straggler.
  std::uint32_t stragglers = 0;
};

/// The member's memory for the message: `slots` consecutive slots of one block each. Block b is in slot b mod
/// slots. If there are at least as many slots as blocks, the whole message is in memory. Otherwise the memory
/// is a ring buffer. Grants carry the address and the key to the sources. At the root, the address and the
/// key are zero.
struct Memory {
  std::uint64_t slots = 0;
  std::uint64_t remote_address = 0;
  RemoteKey key{};
};

/// A WRITE with immediate that must be posted now. A write without bytes, for a block that has bytes,
/// informs a straggler that this block is omitted.
struct BlockWrite {
  Rank to{};
  std::uint64_t block = 0;
  /// The offset in the member's memory, or 0 if from_arena.
  std::uint64_t local_offset = 0;
  std::uint64_t remote_address = 0;
  /// The exact number of bytes, never more than the rest of the message. 0 if the block is omitted.
  std::uint32_t bytes = 0;
  RemoteKey key{};
  std::uint32_t immediate = 0;
  /// True if the block must be read from the first-block arena, because place_first_block() was not called
  /// yet.
  bool from_arena = false;
  /// True if the destination perhaps does not know the length yet. A SEND with the length must be posted
  /// before this write.
  bool into_arena = false;
};

/// The next write that `from` will make to this member.
struct ExpectedWrite {
  Rank from{};
  std::uint64_t block = 0;
  RemoteKey key{};
  std::uint64_t remote_address = 0;
  std::uint32_t bytes = 0;
};

class Relay {
 public:
  /// Errors: invalid_argument, with the name of the field in the message.
  static Result<Relay> create(const RelayConfig& config);

  // -- the length of the message, and its memory --

  /// Sets the exact size of the message. The root knows it from the start, and a receiver learns it from the
  /// announcement. 0 is allowed; such a message travels as one empty block. Setting the same value again has
  /// no effect. Errors: protocol_error (another value than before), invalid_argument (more than kMaxBlocks
  /// blocks).
  Result<void> set_length(std::uint64_t bytes);
  /// Checks whether set_length(bytes) and then set_memory() with this number of slots would succeed. Returns
  /// their error if they would not.
  Result<void> accepts(std::uint64_t bytes, std::uint64_t slots) const;
  bool has_length() const { return blocks_ != 0; }

  /// Sets the memory. Must be called once, after set_length(). Errors: invalid_argument if it is called
  /// before set_length() or twice, or if `slots` is less than both the number of blocks and
  /// Schedule::minimum_slots(). With fewer slots in the ring buffer, the pipeline could starve or deadlock.
  Result<void> set_memory(const Memory& memory);

  /// Receiver only: offers the first-block arena, which is memory for one block of block_bytes bytes.
  /// poll_grant() then grants it to the first source. Errors: invalid_argument at the root, if it is called
  /// twice or after set_memory(), or if the algorithm's first source depends on the length.
  Result<void> offer_arena(std::uint64_t remote_address, RemoteKey key);
  /// Must be called after the driver has moved the first block from the arena to its slot. From then on the
  /// block is read from the slot. Preconditions: first_block_in_arena(), and set_memory() was called.
  void place_first_block();
  /// True if the first block has arrived in the arena and was not placed in its slot yet. After memory was
  /// granted, another source may be faster than the first source. So other blocks may arrive before the first
  /// block.
  bool first_block_in_arena() const { return arena_ == Arena::holds_first_block; }
  /// True if the arena is granted and the first block has not arrived. The first write of the first source
  /// will go to the arena.
  bool first_block_awaited() const { return arena_ == Arena::granted; }
  /// True if a write that reads from the arena is in flight.
  bool first_block_busy() const { return arena_writes_in_flight_ != 0; }
  /// True if the arena is no longer needed for this message: its first block was moved, and no write reads
  /// from the arena. The arena may then be offered for another message.
  bool arena_is_free() const { return arena_ == Arena::emptied && !first_block_busy(); }
  /// The index of the block that arrives in the arena. Precondition: has_length().
  std::uint64_t first_block() const;
  /// The member that sends the first block and announces the length to this member, or nullopt at the root.
  /// If first_source_needs_length(), the length must be known.
  std::optional<Rank> first_source() const;

  std::uint64_t length() const { return length_; }
  /// max(1, ceil(length / block_bytes)), or 0 while the length is not known.
  std::uint64_t block_count() const { return blocks_; }
  std::uint32_t block_length(std::uint64_t block) const;
  /// The offset of the block's slot in the member's memory, in bytes.
  std::uint64_t offset_of(std::uint64_t block) const;
  const Schedule& schedule() const { return schedule_; }

  // -- events --

  /// Called at the root only: the blocks [0, limit) can now be read from the memory. `limit` must not shrink.
  /// A limit beyond block_count() counts as block_count().
  void on_available(std::uint64_t limit);
  /// Called when a grant from `from` has arrived. Errors: protocol_error (`from` is not a destination of this
  /// member, the limit shrinks, the memory has changed, an address overflows).
  Result<void> on_grant(Rank from, const BlockGrant& grant);
  /// Called when a WRITE with immediate from `from` has completed in this member's memory. Returns the 64-bit
  /// index of the block. Errors: cancelled after cancel(); protocol_error if the block is not due from `from`
  /// according to the schedule, was not granted, or does not have its exact length. At a straggler a block
  /// may also arrive without bytes. is_omitted() then returns true for it. After an error nothing has
  /// changed. A block may overtake up to kMostOvertaken other blocks of its source.
  Result<std::uint64_t> on_block(Rank from, std::uint32_t immediate, std::uint32_t byte_count);
  /// Called when the write of `block` to `to`, which poll_write() returned, was acknowledged.
  void on_write_complete(Rank to, std::uint64_t block);
  /// Called at receivers only, when the application no longer needs the block in memory. If the whole message
  /// is in memory, this is when the block has arrived. In a ring buffer, this is when the block is on disk.
  /// Must be called once for each block, in any order, and also for omitted blocks.
  void on_consumed(std::uint64_t block);

  // -- actions: after each batch of events, each of these functions must be called until it returns false --

  /// Returns the next write to post in `write`. Writes come in the order of the schedule, with two
  /// exceptions. Firstly, a write may overtake a write to another destination if the block of that write has
  /// not arrived, or if that destination is slow. Secondly, a write may overtake a write to the same
  /// destination if the block of the overtaken write was itself overtaken on its path to this member. The
  /// driver must post the writes in this order, and they must leave in this order.
  bool poll_write(BlockWrite& write);
  /// Returns the next grant to send in `grant`, and its receiver in `to`.
  bool poll_grant(Rank& to, BlockGrant& grant);
  /// Returns the next expected write in `expected_write`. Each expected write is returned once, after it was
  /// granted, and in the order in which its source writes. The driver must post a receive for it and pass the
  /// hint to the queue pair. The write to the arena is not returned, because the caller of offer_arena()
  /// posts a receive for it.
  bool poll_expected_write(ExpectedWrite& expected_write);

  // -- state --

  /// All blocks below this limit are consumed, and all their scheduled writes are acknowledged. Their slots
  /// may be used again.
  std::uint64_t released_limit() const { return released_; }
  /// The number of blocks that have arrived, including omitted ones.
  std::uint64_t blocks_held() const { return received_; }
  /// The set of blocks that have arrived. Only for a message that is in memory as a whole. It does not
  /// contain a block that is still in the arena.
  BlockMap held() const;
  /// True if `block` has not been released yet, and no member will send it to this member in this message.
  bool is_omitted(std::uint64_t block) const;
  /// Returns the destinations that lag, in the order of their ranks: they keep too many slots of this member
  /// occupied, or they soon will. Stragglers are not included. The backlog of a destination is the number of
  /// blocks that have arrived here and that the destination has not acknowledged. A destination lags if its
  /// backlog is more than three eighths of the slots. It also lags if two conditions are met: its backlog is
  /// more than an eighth of the slots, and in the last interval it acknowledged fewer blocks than three
  /// quarters of those that became due to it. The interval of a destination ends with the first call of this
  /// function at which enough blocks have become due to it. At the root, only blocks that are older than an
  /// acknowledged block count. Must be called about every tenth of a second.
  std::vector<Rank> find_lagging();
  std::uint32_t writes_in_flight() const { return writes_in_flight_; }
  /// The size of this object and everything it holds. The size depends on the number of members, the number
  /// of slots and the limit of writes in flight, and not on the message. A member that sends to a straggler
  /// keeps up to 4096 sends.
  std::size_t state_bytes() const;
  /// True if every block has arrived or was omitted. At the root, true if every block was made available.
  bool is_delivered() const { return blocks_ != 0 && received_ == blocks_; }
  /// True if the message is delivered and consumed, and all writes of this member are acknowledged.
  bool is_complete() const { return blocks_ != 0 && released_ == blocks_ && window_.is_empty(); }
  /// Returns the transfer that this member waits for. Returns nullopt before set_memory(), after the end of
  /// the message, or if the next call of a poll function returns true.
  std::optional<Wait> wait() const;

  /// Cancels the message. The poll functions return false from now on, and events are ignored. Only
  /// on_write_complete() still has an effect, so that writes_in_flight() shows when no write uses the memory
  /// any more.
  void cancel() { cancelled_ = true; }

 private:
  /// A member that sends to this member.
  struct Source {
    Rank rank{};
    std::optional<std::uint64_t> receive_step;  ///< the step of its next write; nullopt after the last one
    /// The step of its next write that poll_expected_write() has not returned yet.
    std::optional<std::uint64_t> expected_step;
    /// The number of writes that poll_expected_write() has returned and that have not arrived.
    std::uint32_t expected_writes = 0;
    std::uint64_t granted = 0;
    std::uint64_t newest = 0;  ///< one more than the largest step whose block from this source has arrived
  };
  /// A member that this member sends to, and the grants of that member.
  struct Destination {
    Rank rank{};
    std::optional<BlockGrant> memory;
    std::optional<BlockGrant> arena;
    bool started = false;  ///< its first write was posted
    bool is_straggler = false;
    bool is_behind = false;  ///< true if the block that omit_for_stragglers() checked last is omitted
    /// It acknowledged less than three quarters of the due writes in the last interval of find_lagging().
    bool falls_behind = false;
    std::uint32_t writes = 0;     ///< the writes in flight, without those of omitted blocks
    std::uint32_t omissions = 0;  ///< the writes in flight that report omitted blocks
    std::uint64_t writes_done = 0;
    /// The numbers of writes that were due and that were done at the end of the last interval of
    /// find_lagging().
    std::uint64_t due_before = 0, done_before = 0;
    /// The value of write_polls_ in the last poll_write() call that made writes to this destination wait. In
    /// that call, no later write to this destination is chosen.
    std::uint64_t held_up_in = 0;
  };
  enum class Arena : std::uint8_t { none, offered, granted, holds_first_block, emptied };

  explicit Relay(const RelayConfig& config);

  // Defined in relay.cpp.
  Result<std::uint64_t> count_blocks(std::uint64_t bytes) const;
  Result<void> check_slots(std::uint64_t slots, std::uint64_t blocks) const;
  std::uint64_t least_slots(std::uint64_t blocks) const;
  bool holds(std::uint64_t block) const;
  void release();
  // Defined in relay_receive.cpp.
  std::uint64_t block_at(std::uint64_t step) const;
  std::optional<std::uint64_t> step_of(const Source& source, std::uint32_t immediate) const;
  void note_overtaken(Source& source, std::uint64_t step);
  void skip_held(Rank source, std::optional<std::uint64_t>& step) const;
  void skip_arena_write();
  Source* find_source(Rank rank);
  // Defined in relay_send.cpp.
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
  // Defined in relay_wait.cpp.
  std::optional<Wait> send_wait() const;

  RelayConfig config_;
  Schedule schedule_;
  /// The first receive of this member. Before set_length() is called, it is the first receive of a message
  /// with many blocks. The root does not use this member.
  Transfer first_;
  std::uint64_t length_ = 0;
  std::uint64_t blocks_ = 0;
  std::uint64_t steps_ = 0;

  std::optional<Memory> memory_;
  std::uint64_t grant_batch_ = 1;
  Arena arena_ = Arena::none;
  std::uint64_t arena_address_ = 0;
  RemoteKey arena_key_{};

  std::uint64_t reached_ = 0;   ///< one more than the highest block that has arrived
  std::uint64_t received_ = 0;  ///< the number of blocks that have arrived, including released ones
  std::uint64_t released_ = 0;
  std::vector<bool> held_;      ///< for each slot, true if its block has arrived; receivers only
  std::vector<bool> consumed_;  ///< for each slot, true if its block was consumed; receivers only
  /// For each slot, true if its block has not arrived although a later block of the same source has arrived.
  /// This happens if a packet of the block was lost, on the path to this member or to its source. Only for
  /// receivers.
  std::vector<bool> overtaken_;
  std::vector<bool> omitted_;  ///< for each slot, true if its block is omitted; stragglers only

  std::vector<Source> sources_;
  std::vector<Destination> destinations_;
  SendWindow window_;
  std::uint64_t write_polls_ = 0;  ///< counts the poll_write() calls that looked for a write
  std::uint64_t written_ = 0;      ///< one more than the highest block whose write was acknowledged
  std::uint32_t writes_in_flight_ = 0;
  std::uint32_t arena_writes_in_flight_ = 0;
  std::uint32_t omissions_in_flight_ = 0;
  bool has_stragglers_ = false;  ///< true if a destination is a straggler
  bool cancelled_ = false;
};

}  // namespace rdmc::relay

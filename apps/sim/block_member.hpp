// One member of one group in the block model: the product's relay, and for each slot of memory the number of
// the block in it. There is no payload. The numbers of the blocks show three errors: a write outside the
// granted memory, a write over a block that is still needed, and a send from a slot that contains another
// block. Only one thread may use it.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "dataplane/relay/relay.hpp"

namespace rdmc::sim_app {

/// The message's length, sent before a member's first block.
struct LengthNote {
  std::uint64_t bytes = 0;
};
/// The note by which the peer acknowledges a write.
struct AcknowledgedNote {
  std::uint64_t block = 0;
};
/// The messages between members. A BlockWrite represents the block itself.
using BlockNote = std::variant<LengthNote, relay::BlockGrant, relay::BlockWrite, AcknowledgedNote>;

/// The interface by which a member sends its notes and reports violations.
class BlockOutbox {
 public:
  virtual ~BlockOutbox() = default;
  virtual void post(Rank to, const BlockNote& note) = 0;
  virtual void violate(const std::string& what) = 0;
};

class BlockMember {
 public:
  /// Makes a member with `slots` slots of memory, or with one slot for each block of the message if that is
  /// less. Precondition: Relay::create accepts `config` (asserted).
  BlockMember(const relay::RelayConfig& config, std::uint64_t slots, BlockOutbox& outbox);

  /// Sends a message. Only the root calls this function.
  void send(std::uint64_t bytes);
  /// On a receiver: grants the first-block arena, unless the member's first source depends on the length.
  void listen();

  /// Called when a block's last byte is in memory. The completion of the block has not been handled yet.
  void land(const relay::BlockWrite& write);
  /// Handles the completion of a block that has landed.
  void complete(Rank from, const relay::BlockWrite& write);
  void on_note(Rank from, const LengthNote& note);
  void on_note(Rank from, const relay::BlockGrant& grant);
  void on_note(Rank from, const AcknowledgedNote& note);

  const relay::Relay& relay() const { return relay_; }
  bool is_delivered() const { return relay_.is_delivered(); }
  /// Returns the size in bytes of the memory that the blocks pass through.
  std::uint64_t ring_bytes() const { return slots_.size() * config_.block_bytes; }
  /// True if every block was received once.
  bool is_whole() const { return received_ == relay_.block_count(); }

 private:
  static constexpr std::uint64_t kNothing = UINT64_MAX;
  static constexpr std::uint64_t kArenaAt = 1 << 20;
  static constexpr std::uint64_t kMemoryAt = std::uint64_t{1} << 40;

  RemoteKey key() const { return RemoteKey{value_of(config_.rank) + 1}; }
  void announce();
  void take_memory();
  /// Returns the slot, or the arena, that a write of this length to this address changes. Returns null if the
  /// address and length fit neither a slot nor the arena.
  std::uint64_t* place_of(std::uint64_t address, std::uint64_t bytes);
  void check(bool holds, const char* what, std::uint64_t block);
  void drain();
  void refill();

  relay::RelayConfig config_;
  relay::Relay relay_;
  std::uint64_t most_slots_;
  BlockOutbox& outbox_;
  std::vector<std::uint64_t> slots_;  ///< The block in each slot, or kNothing.
  std::uint64_t arena_ = kNothing;
  std::uint64_t released_ = 0;   ///< The slots of the blocks below this number are free again.
  std::uint64_t available_ = 0;  ///< On the root: the blocks below this number were read in.
  std::uint64_t received_ = 0;
  std::vector<bool> seen_;  ///< For each block, true if it was received. Used for the check only; the product
                            ///< does not use it.
};

}  // namespace rdmc::sim_app

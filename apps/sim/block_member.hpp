// One member of one group in the block model: the product's relay, and beside it a note of which block lies
// in which slot of its memory. No payload: a write that lands outside what was granted, or on a block that is
// still needed, or that is read from a slot that holds another block, is seen by its number. One thread.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "dataplane/relay/relay.hpp"

namespace rdmc::sim_app {

/// Before a member's first block: the message's length.
struct LengthNote {
  std::uint64_t bytes = 0;
};
/// A write was acknowledged.
struct AcknowledgedNote {
  std::uint64_t block = 0;
};
/// What members say to each other; a BlockWrite stands for the block itself.
using BlockNote = std::variant<LengthNote, relay::BlockGrant, relay::BlockWrite, AcknowledgedNote>;

/// Where a member's words go.
class BlockOutbox {
 public:
  virtual ~BlockOutbox() = default;
  virtual void post(Rank to, const BlockNote& note) = 0;
  virtual void violate(const std::string& what) = 0;
};

class BlockMember {
 public:
  /// `slots` of memory, or as many as the message has blocks if that is less. Asserts what Relay::create
  /// refuses.
  BlockMember(const relay::RelayConfig& config, std::uint64_t slots, BlockOutbox& outbox);

  /// The root's message.
  void send(std::uint64_t bytes);
  /// A receiver offers its arena, unless its first source depends on the length.
  void listen();

  /// A block's last byte is in memory; its completion is yet to be looked at.
  void land(const relay::BlockWrite& write);
  /// The completion of a block that has landed.
  void complete(Rank from, const relay::BlockWrite& write);
  void on_note(Rank from, const LengthNote& note);
  void on_note(Rank from, const relay::BlockGrant& grant);
  void on_note(Rank from, const AcknowledgedNote& note);

  const relay::Relay& relay() const { return relay_; }
  bool is_delivered() const { return relay_.is_delivered(); }
  /// Bytes of memory that blocks go through.
  std::uint64_t ring_bytes() const { return slots_.size() * config_.block_bytes; }
  /// Every block came, once.
  bool is_whole() const { return received_ == relay_.block_count(); }

 private:
  static constexpr std::uint64_t kNothing = UINT64_MAX;
  static constexpr std::uint64_t kArenaAt = 1 << 20;
  static constexpr std::uint64_t kMemoryAt = std::uint64_t{1} << 40;

  RemoteKey key() const { return RemoteKey{value_of(config_.rank) + 1}; }
  void announce();
  void take_memory();
  /// Where in our memory, arena included, a write of this length to this address goes; null: nowhere.
  std::uint64_t* place_of(std::uint64_t address, std::uint64_t bytes);
  void check(bool holds, const char* what, std::uint64_t block);
  void drain();
  void refill();

  relay::RelayConfig config_;
  relay::Relay relay_;
  std::uint64_t most_slots_;
  BlockOutbox& outbox_;
  std::vector<std::uint64_t> slots_;  ///< the block in each, or kNothing
  std::uint64_t arena_ = kNothing;
  std::uint64_t released_ = 0;   ///< blocks below need their slots no more
  std::uint64_t available_ = 0;  ///< root: blocks below were read in
  std::uint64_t received_ = 0;
  std::vector<bool> seen_;  ///< the checker's own, not the product's: by block
};

}  // namespace rdmc::sim_app

// An epoch of a group that begins with a recovery. Each survivor sends its state to the new root. The new
// root makes a RecoveryPlan, which says which member sends which blocks. All rounds of the plan run at the
// same time, and each round is a group of its own. The epoch has a group of its own, in which the root sends
// three messages before all messages of the application:
//   - An empty message, by which the root learns if a member has not made the group.
//   - The plan.
//   - An empty message, which a member accepts when it has everything. When this message is stable, the epoch
//     is open.
// The death of a member is always a failure of the epoch's group, which names the dead member. It makes no
// difference whether the other members know already that the epoch is open. The owner must not destroy a
// Recovery in an upcall. Used only on the fabric thread.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/group/group.hpp"
#include "lib/group/memory_store.hpp"
#include "lib/group/recovery_plan.hpp"
#include "lib/group/recovery_store.hpp"

namespace rdmc::group {

/// The upcalls of a Recovery to its owner. When the epoch is open, the owner gets the upcalls of an Observer,
/// with message numbers that continue from the plan's end. failed() and released() can come at any time.
/// Ranks are those of the new epoch.
class Survivor : public Observer {
 public:
  virtual SurvivorState survivor_state() = 0;
  /// For each message of the plan that has no memory yet, this function must provide memory. The plan has the
  /// length of the message. An error ends the recovery.
  virtual Result<void> on_plan(const RecoveryPlan& plan) = 0;
  /// Returns the memory of a message. Called between on_plan() and the end of the recovery.
  virtual std::span<std::byte> bytes_of(std::uint64_t message) = 0;
  virtual bool has_block(std::uint64_t message, std::uint64_t block) const = 0;
  virtual void recovered(std::uint64_t message, std::uint64_t block) = 0;
  /// Called when all messages of the plan are here. The owner must deliver them, drop the void messages, and
  /// then call finish().
  virtual void all_recovered() = 0;
  /// Called when all members have called finish(). Then every member has all messages of the plan.
  virtual void succeeded() = 0;
};

class Recovery final : public Observer {
 public:
  /// `config` describes the new epoch. Its rank 0 is the new root. If a peer is not connected any more, the
  /// group fails in the next turn. Errors: those of Group::create.
  static Result<std::unique_ptr<Recovery>> create(Peers& peers, GroupConfig config, Survivor& survivor);
  ~Recovery() override;

  /// Sends this member's state to the new root. Except for survivor_state(), no upcall comes before this call
  /// returns.
  void begin();
  /// To be called when the owner has delivered the messages of the plan and dropped the void ones. After this
  /// call new messages may arrive, with numbers from the plan's end on. The caller must make sure that
  /// another turn follows.
  void finish();
  /// Ends the epoch here and at every member, with no member to blame. failed() is not called here.
  void end(const Error& cause);
  /// To be set to true while recovered messages cannot be delivered because the application has not given
  /// memory for them.
  void set_memory_awaited(bool awaited) { group_->set_memory_awaited(awaited); }
  bool is_released() const;

  Group& group() { return *group_; }
  /// The number that the application uses for message 0 of the epoch's group, modulo 2^64. Valid when the
  /// plan is known.
  std::uint64_t offset() const { return offset_; }

 private:
  struct RoundPart;

  Recovery(const GroupConfig& config, Peers& peers, Survivor& survivor);
  bool is_root() const { return value_of(config_.rank) == 0; }
  bool is_connected(Rank rank) const { return peers_.is_connected(config_.members[value_of(rank)]); }
  void plan_if_all_told();
  void take_plan();
  Result<void> run(const RecoveryPlan& plan);
  std::uint32_t rack_of(std::size_t rank) const;
  relay::Algorithm round_algorithm() const;
  Result<void> start_round(std::size_t index, const RecoveryPlan& plan);
  std::vector<RecoveryStore::Piece> pieces_of(const relay::Round& round, const RecoveryPlan& plan) const;
  void part_released();
  void go_on();
  void set_open();
  Store& hold_plan(std::vector<std::byte> bytes);

  Store* incoming(std::uint64_t message, std::uint64_t bytes) override;
  bool small(std::uint64_t message, std::span<const std::byte> bytes) override;
  void delivered(std::uint64_t message) override;
  void completed(std::uint64_t message) override;
  void failed(std::optional<Rank> member, const Error& error) override;
  void stable(std::uint64_t count) override;
  void held_up(const std::optional<Holder>& holder) override;
  void told(Rank from, std::span<const std::byte> note) override;
  void released() override { part_released(); }

  GroupConfig config_;
  Peers& peers_;
  Survivor& survivor_;
  std::vector<std::byte> plan_bytes_;
  std::optional<MemoryStore> plan_store_;
  std::unique_ptr<Group> group_;  // Destroyed before the plan's memory.
  std::vector<std::unique_ptr<RoundPart>> rounds_;
  std::vector<std::optional<SurvivorState>> states_;  // Root: indexed by rank.
  std::uint64_t offset_ = 0;
  bool running_ = false, recovered_ = false, finished_ = false, open_ = false;
  bool over_ = false, released_ = false;
};

}  // namespace rdmc::group

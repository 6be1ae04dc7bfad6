// An epoch of a group that begins with what survivors of the one before have. Each tells the new root; that
// one plans who sends what (RecoveryPlan); all rounds of the plan run at the same time, each a group of its
// own. All else are the first messages of the epoch's own group, before any of the application's: an empty
// one, so that whoever has not made the group is found out, the plan, and one that a member takes when it has
// everything - once that is stable, the epoch is open. So a death is the same failure for those who know that
// it is open and for those who do not yet, and comes with a name. Owned by a member that must not destroy it
// in an upcall. One thread, the engine's.
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

/// Upcalls of a Recovery, to the member that owns it: a listener's once the epoch is open, with messages
/// numbered from the plan's end on; failed() and released() come for all of its life, ranks being those of
/// the successor.
class Survivor : public Observer {
 public:
  virtual SurvivorState survivor_state() = 0;
  /// Gives each of the plan's messages memory of its length, unless it has some. Errors end the recovery.
  virtual Result<void> on_plan(const RecoveryPlan& plan) = 0;
  /// Where that is, from on_plan() to the end of the recovery.
  virtual std::span<std::byte> bytes_of(std::uint64_t message) = 0;
  virtual bool has_block(std::uint64_t message, std::uint64_t block) const = 0;
  virtual void recovered(std::uint64_t message, std::uint64_t block) = 0;
  /// All of the plan's messages are here: deliver them, forget what is void, then call finish().
  virtual void all_recovered() = 0;
  /// All members have called finish(): everybody has everything.
  virtual void succeeded() = 0;
};

class Recovery final : public Observer {
 public:
  /// Of the successor, whose rank 0 is the new root. Peers that are connected no longer are a failure that
  /// comes in the next turn. Errors: those of Group::create.
  static Result<std::unique_ptr<Recovery>> create(Peers& peers, GroupConfig config, Survivor& survivor);
  ~Recovery() override;

  /// Tells the new root what this member has. No upcall comes before.
  void begin();
  /// From here on a member that others see go on may be sent new messages under the numbers from the plan's
  /// end on. A turn must follow.
  void finish();
  /// Ends it here and everywhere; nobody is to blame, and failed() is not called here.
  void end(const Error& cause);
  /// What was recovered cannot be delivered, because the application has not given memory for it.
  void set_memory_awaited(bool awaited) { group_->set_memory_awaited(awaited); }
  bool is_released() const;

  Group& group() { return *group_; }
  /// The application's number of the group's message 0, modulo 2^64. Good from the plan on.
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
  std::unique_ptr<Group> group_;  // goes before the plan's memory
  std::vector<std::unique_ptr<RoundPart>> rounds_;
  std::vector<std::optional<SurvivorState>> states_;  // root: by rank
  std::uint64_t offset_ = 0;
  bool running_ = false, recovered_ = false, finished_ = false, open_ = false;
  bool over_ = false, released_ = false;
};

}  // namespace rdmc::group

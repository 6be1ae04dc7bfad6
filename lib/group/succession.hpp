// How survivors of a group's epoch go on in the next: each tells the new root what it has, that one plans who
// sends what (RecoveryPlan), all rounds of the plan run at the same time, each a group of its own, and when
// everybody has delivered everything, everybody is told so. It is made of groups - the plan's, in which all
// survivors are, and one for each round - so whatever fails, fails as a group does: everywhere, with a name.
// Owned by a member that must not destroy it in an upcall. One thread, the engine's.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/group/group.hpp"
#include "lib/group/recovery_plan.hpp"
#include "lib/group/recovery_store.hpp"

namespace rdmc::group {

struct SuccessionConfig {
  GroupName name{};  ///< of the successor
  Rank rank{};
  std::vector<PeerId> members;  ///< of the successor, by rank; the new root first
  std::uint32_t block_bytes = 256 * 1024;
  Duration memory_patience{};  ///< as in GroupConfig; set_memory_awaited() says when it counts
};

/// Upcalls of a Succession, to the member that owns it.
class Survivor {
 public:
  virtual ~Survivor() = default;
  virtual SurvivorState survivor_state() = 0;
  /// Gives each of the plan's messages memory of its length, unless it has some. Errors end the succession.
  virtual Result<void> on_plan(const RecoveryPlan& plan) = 0;
  /// Where that is, from on_plan() to the end of the succession.
  virtual std::span<std::byte> bytes_of(std::uint64_t message) = 0;
  virtual bool has_block(std::uint64_t message, std::uint64_t block) const = 0;
  virtual void recovered(std::uint64_t message, std::uint64_t block) = 0;
  /// All of the plan's messages are here: deliver them, then call finish().
  virtual void all_recovered() = 0;
  /// All members have called finish(): everybody has everything.
  virtual void succeeded() = 0;
  /// `member`: rank in the successor. At most once, and not after succeeded().
  virtual void succession_failed(std::optional<Rank> member, const Error& error) = 0;
  /// After any end: nobody touches the messages' memory any more.
  virtual void succession_released() = 0;
};

class Succession {
 public:
  /// Peers that are connected no longer are a failure that comes in the next turn. Errors: those of
  /// Group::create.
  static Result<std::unique_ptr<Succession>> create(Peers& peers, const SuccessionConfig& config,
                                                    Survivor& survivor);
  ~Succession();

  /// Tells the new root what this member has. No upcall comes before.
  void begin();
  void finish();
  /// Ends it here and everywhere; nobody is to blame.
  void end(const Error& cause) { fail(std::nullopt, cause, false); }
  void give_up(const Error& error) { fail(config_.rank, error, true); }
  /// What was recovered cannot be delivered, because the application has not given memory for it.
  void set_memory_awaited(bool awaited);
  bool is_released() const;

 private:
  /// A group, the bytes of its messages, and what it tells us.
  struct Part : Listener {
    explicit Part(Succession& s) : succession(s) {}
    void released() override { succession.part_released(); }
    Succession& succession;
    std::unique_ptr<Group> group;
  };
  struct PlanPart;
  struct RoundPart;

  Succession(Peers& peers, const SuccessionConfig& config, Survivor& survivor);
  bool is_root() const { return value_of(config_.rank) == 0; }
  GroupConfig group_config(std::uint64_t part) const;
  void told(Rank from, std::span<const std::byte> bytes);
  void plan_if_all_told();
  void take_plan(std::span<const std::byte> bytes);
  Result<void> run(const RecoveryPlan& plan);
  Result<void> start_round(std::size_t index, const RecoveryPlan& plan);
  std::vector<RecoveryStore::Piece> pieces_of(const relay::Round& round, const RecoveryPlan& plan) const;
  void part_released();
  void go_on();
  void fail(std::optional<Rank> member, const Error& error, bool tells);

  Peers& peers_;
  SuccessionConfig config_;
  Survivor& survivor_;
  std::unique_ptr<PlanPart> plan_;
  std::vector<std::unique_ptr<RoundPart>> rounds_;
  std::vector<std::optional<SurvivorState>> states_;  // root: by rank
  bool running_ = false, recovered_ = false, over_ = false, released_ = false;
};

}  // namespace rdmc::group

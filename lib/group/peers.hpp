// The processes that this one is connected to, over one fabric and on one engine, and the groups that share
// those connections: making a group among connected peers sends nothing, and ending it leaves them to the
// others. Blobs are exchanged by whoever makes the connections. What comes for a group that was not made here
// yet is kept for it. Everything happens on the fabric thread.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "dataplane/engine/engine.hpp"
#include "dataplane/fabric/queue_pair.hpp"
#include "lib/group/early_records.hpp"
#include "lib/group/link.hpp"
#include "lib/group/node_counters.hpp"

namespace rdmc::group {

struct PeersConfig {
  LinkOptions link;
  /// A link of a busy group on which nothing was sent for so long gets a frame without records: whoever dies
  /// is found out although it has nothing to receive. Zero: never.
  Duration keepalive{};
  EarlyLimits early;
  NodeCounts* counts = nullptr;  ///< connections made and ended are counted here; null: nowhere
};

/// What the table knows of a group. Links are handed out only while they are open.
class GroupPart {
 public:
  virtual ~GroupPart() = default;
  virtual const GroupName& name() const = 0;
  /// Errors: the peer's fault, for which the part answers by failing.
  virtual void on_record(Link& link, const Record& record) = 0;
  virtual void on_block(Link& link, const fabric::Completion& completion) = 0;
  virtual void on_write_complete(Link& link, std::uint64_t message_low_bits, std::uint64_t block) = 0;
  /// The link will be gone when this returns.
  virtual void on_link_lost(Link& link, const Error& cause) = 0;
  /// The process had no memory for something of some group's: this one may lack a piece, and fails.
  virtual void on_out_of_memory() = 0;
  virtual std::size_t work(Time now) = 0;
  /// Its neighbours' silence would be a failure now.
  virtual bool is_busy() const = 0;
  virtual bool uses(const Link& link) const = 0;
  virtual Time next_deadline() const = 0;
};

class Peers final : public engine::Poller {
 public:
  /// Slot ids name a group by 10 bits and one of its messages by 6; the last group's are the frames'.
  static constexpr std::uint32_t kMostGroups = 1023, kSlotsPerGroup = 64;

  explicit Peers(fabric::Fabric& fabric, const PeersConfig& config = {});
  ~Peers() override;
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  fabric::Fabric& fabric() { return fabric_; }

  /// What the peer needs to connect to us; makes the link if there is none, anew if the last one was lost.
  /// Errors: those of Link::create.
  Result<fabric::ConnectionBlob> offer(PeerId peer);
  /// Errors: not_found (nothing was offered), those of Link::connect.
  Result<void> connect(PeerId peer, std::span<const std::byte> blob);
  bool is_connected(PeerId peer) const;
  /// Of a peer that is connected and tells it: those with the same share a host, we with `own_host()`.
  std::optional<std::uint64_t> host_of(PeerId peer) const;
  std::uint64_t own_host() const { return config_.link.host; }
  /// Ends the link: groups with that peer fail with `cause`, and from its return on the peer reaches nothing.
  /// Only if it is among the first `made` links; a later one may belong to a process that has come back.
  void disconnect(PeerId peer, const Error& cause,
                  std::uint64_t made = std::numeric_limits<std::uint64_t>::max());
  /// How many links have been made.
  std::uint64_t links_made() const { return links_made_; }
  void disconnect_all(const Error& cause);

  /// For groups: the link, made if there is none.
  Result<Link*> link_to(PeerId peer);
  /// For groups: a number for its slots. Errors: already_exists (a group of that name, now or before),
  /// resource_limit (kMostGroups).
  Result<std::uint32_t> add(GroupPart& part);
  void remove(GroupPart& part);

  /// All that was sent has arrived.
  bool is_quiet() const;

  std::size_t work(Time now) override;
  Time next_deadline() const override;
  void on_out_of_memory() override;

 private:
  std::size_t poll(Link& link);
  Result<void> on_completion(Link& link, const fabric::Completion& completion);
  Result<void> on_frame(Link& link, const fabric::Completion& completion);
  Result<void> dispatch(Link& link, std::span<const std::byte> records);
  void on_stranger(Link& link, const GroupName& name, const Record& record);
  void refuse(const EarlyRecords::Refused& refused);
  void deliver_early();
  void lose(Link& link, const Error& cause);
  std::size_t flush(Time now);
  GroupPart* find(const GroupName& name) const;
  Link* find(PeerId peer) const;

  struct Entry {
    std::unique_ptr<Link> link;
    std::uint64_t number = 0;  // 1 is the first one that was made
    std::uint64_t frames = 0;  // sent at the last look whether it is silent
  };

  fabric::Fabric& fabric_;
  PeersConfig config_;
  std::vector<Entry> links_;
  std::uint64_t links_made_ = 0;
  std::vector<std::unique_ptr<Link>> lost_;  // until the end of the turn
  std::array<GroupPart*, kMostGroups> parts_{};
  std::uint32_t parts_end_ = 0;  // indices below were used
  std::unordered_map<GroupName, std::uint32_t, GroupNameHash> by_name_;
  EarlyRecords early_;
  std::vector<GroupName> newcomers_;  // made since the last turn
  Time now_{};
  Time next_keepalive_ = Time::never();
};

}  // namespace rdmc::group

// The link table: the processes to which this process is connected over one fabric, and the groups that share
// those links. Making a group among connected peers sends nothing. Ending a group leaves the links to the
// other groups. The owner of the table exchanges the connection blobs. The table keeps records for a group
// that was not made here yet. Everything happens on the fabric thread.
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
  /// If nothing was sent for this time on a link of a busy group, a frame without records is sent. So a dead
  /// peer is noticed even if nothing else is sent to it. Zero means that no such frames are sent.
  Duration keepalive{};
  EarlyLimits early;
  /// Counts the connections that were made and that have ended. May be null.
  NodeCounts* counts = nullptr;
};

/// The interface between the link table and one group. Links are passed only while they are open.
class GroupPart {
 public:
  virtual ~GroupPart() = default;
  virtual const GroupName& name() const = 0;
  /// Called when a record or a block has arrived. If the record or block is wrong, the group fails with the
  /// peer to blame.
  virtual void on_record(Link& link, const Record& record) = 0;
  virtual void on_block(Link& link, const fabric::Completion& completion) = 0;
  virtual void on_write_complete(Link& link, std::uint64_t message_low_bits, std::uint64_t block) = 0;
  /// Called when the link was lost. The link is destroyed after this function has returned.
  virtual void on_link_lost(Link& link, const Error& cause) = 0;
  /// Called when this process had no memory for some group's work. This group may lack a part of its state,
  /// so it must fail.
  virtual void on_out_of_memory() = 0;
  virtual std::size_t work(Time now) = 0;
  /// True if a neighbour's silence would be a failure now.
  virtual bool is_busy() const = 0;
  virtual bool uses(const Link& link) const = 0;
  virtual Time next_deadline() const = 0;
};

class Peers final : public engine::Poller {
 public:
  /// A message id in a grant names a group by 10 bits and one of its messages by 6 bits. The highest group
  /// index is reserved for frames.
  static constexpr std::uint32_t kMostGroups = 1023, kSlotsPerGroup = 64;

  explicit Peers(fabric::Fabric& fabric, const PeersConfig& config = {});
  ~Peers() override;
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  fabric::Fabric& fabric() { return fabric_; }

  /// Returns the bytes that the peer needs to connect. Makes the link if there is none, or if the last one
  /// was lost. Errors: those of Link::create.
  Result<fabric::ConnectionBlob> offer(PeerId peer);
  /// Connects the link with the bytes of the peer's offer(). Errors: not_found if there is no link to the
  /// peer, and those of Link::connect.
  Result<void> connect(PeerId peer, std::span<const std::byte> blob);
  bool is_connected(PeerId peer) const;
  /// The host id of a connected peer. Empty if the peer does not send it. Peers with the same id share a
  /// host; the id of this process is own_host().
  std::optional<std::uint64_t> host_of(PeerId peer) const;
  std::uint64_t own_host() const { return config_.link.host; }
  /// Closes the link. Groups with that peer fail with `cause`. After this function has returned, the peer
  /// cannot access any memory here. Has no effect unless the link is among the first `made` links, because a
  /// later link may belong to a restarted process.
  void disconnect(PeerId peer, const Error& cause,
                  std::uint64_t made = std::numeric_limits<std::uint64_t>::max());
  /// The number of links that were ever made.
  std::uint64_t links_made() const { return links_made_; }
  void disconnect_all(const Error& cause);

  /// For groups: returns the link to the peer. Makes the link if there is none.
  Result<Link*> link_to(PeerId peer);
  /// For groups: adds the group and returns its index in the table. Errors: already_exists if a group of that
  /// name exists or has existed, resource_limit if there are kMostGroups groups.
  Result<std::uint32_t> add(GroupPart& part);
  void remove(GroupPart& part);

  /// True if everything that was sent has arrived at the peers.
  bool is_quiet() const;

  std::size_t work(Time now) override;
  Time next_deadline() const override;
  void on_out_of_memory() override;

 private:
  std::size_t poll(Link& link);
  Result<void> on_completion(Link& link, const fabric::Completion& completion);
  Result<void> on_frame(Link& link, const fabric::Completion& completion);
  Result<void> dispatch(Link& link, std::span<const std::byte> records);
  void on_unknown_group(Link& link, const GroupName& name, const Record& record);
  void refuse(const EarlyRecords::Refused& refused);
  void deliver_early();
  void lose(Link& link, const Error& cause);
  std::size_t flush(Time now);
  GroupPart* find(const GroupName& name) const;
  Link* find(PeerId peer) const;

  struct Entry {
    std::unique_ptr<Link> link;
    std::uint64_t number = 0;  // The first link that was made has number 1.
    std::uint64_t frames = 0;  // The number of frames sent until the last keepalive check.
  };

  fabric::Fabric& fabric_;
  PeersConfig config_;
  std::vector<Entry> links_;
  std::uint64_t links_made_ = 0;
  std::vector<std::unique_ptr<Link>> lost_;  // Kept until the end of the turn.
  std::array<GroupPart*, kMostGroups> parts_{};
  std::uint32_t parts_end_ = 0;  // All used indices are below this one.
  std::unordered_map<GroupName, std::uint32_t, GroupNameHash> by_name_;
  EarlyRecords early_;
  std::vector<GroupName> newcomers_;  // Groups that were made since the last turn.
  Time now_{};
  Time next_keepalive_ = Time::never();
};

}  // namespace rdmc::group

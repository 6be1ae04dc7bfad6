// One member's part in one epoch of a group: its links to its neighbours and the messages under way, each
// driven by a relay core. The root sends, everybody receives and relays, in the root's order. All calls and
// upcalls happen on the engine thread that owns the fabric. The control plane decides who is a member and
// carries the connection blobs; when anything fails the group only reports it, once: ending the epoch and
// forming a successor is the control plane's.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "dataplane/engine/engine.hpp"
#include "dataplane/fabric/queue_pair.hpp"
#include "dataplane/memory/page_exchange.hpp"
#include "dataplane/relay/relay.hpp"
#include "lib/group/link.hpp"
#include "lib/group/store.hpp"

namespace rdmc::group {

struct GroupConfig {
  Rank rank{};
  std::uint32_t members = 1;
  relay::Algorithm algorithm = relay::Algorithm::binomial_pipeline;
  std::uint32_t block_bytes = 256 * 1024;
  std::uint32_t max_writes_in_flight = 16;
  /// Lengths are announced on the data path and the first block of each message lands in an arena that was
  /// granted in advance. False: every member knows each message's length (calls send or receive) before it
  /// begins.
  bool announce_lengths = true;
  fabric::QueuePairOptions queue_pair{};
};

/// Upcalls; they may call back into the group, and end it, but not destroy it.
class Listener {
 public:
  virtual ~Listener() = default;
  /// Receiver, announced lengths: where shall message number `message` of `bytes` bytes go? The store lives
  /// until completed() or the group's end. nullptr: the application can't take it now and will call accept().
  virtual Store* incoming(std::uint64_t message, std::uint64_t bytes) = 0;
  /// Every byte of the message is here and consumed.
  virtual void delivered(std::uint64_t message) = 0;
  /// Delivered, and everything that this member had to relay is acknowledged: the store is free again.
  virtual void completed(std::uint64_t message) = 0;
  /// The epoch can't go on. `peer`: whom the data path gave up on; nobody if the fault is this member's own.
  /// At most once.
  virtual void failed(std::optional<Rank> peer, const Error& error) = 0;
};

struct GroupCounters {
  std::uint64_t blocks_sent = 0, blocks_received = 0, grants_sent = 0, grants_received = 0;
  std::uint64_t first_blocks_exchanged = 0, first_blocks_copied = 0;
  std::uint64_t bytes_copied = 0;  ///< of first blocks: what the hand-off could not exchange
};

class Group final : public engine::Agent {
 public:
  /// How many messages a member works on at a time, beginning with its oldest unfinished one; more wait their
  /// turn. Immediates name a message by eight bits and work ids by sixteen.
  static constexpr std::uint64_t kMessagesUnderWay = 64;
  static_assert(kMessagesUnderWay <= 256);

  /// Makes a queue pair for each neighbour. Errors: invalid_argument, resource_limit.
  static Result<std::unique_ptr<Group>> create(fabric::Fabric& fabric, const GroupConfig& config,
                                               Listener& listener);
  ~Group() override;

  /// What each neighbour needs to connect to us.
  std::vector<std::pair<Rank, fabric::ConnectionBlob>> local_blobs() const;
  /// Errors: invalid_argument (not a neighbour), those of QueuePair::connect.
  Result<void> connect(Rank peer, std::span<const std::byte> blob);

  /// Root: sends `bytes` bytes of `store` as the next message and returns its number. Messages queue. Errors:
  /// invalid_argument (not the root; a ring too small for the schedule), peer_failed (after failed()).
  Result<std::uint64_t> send(Store& store, std::uint64_t bytes);
  /// Receiver, lengths known: the next message has `bytes` bytes and goes into `store`. Errors: as send.
  Result<std::uint64_t> receive(Store& store, std::uint64_t bytes);
  /// Receiver, announced lengths: the answer that incoming() did not have.
  Result<void> accept(std::uint64_t message, Store& store);

  std::size_t work(Time now) override;

  /// Stops everything: from its return on no byte of any store is read or written by the data path or by a
  /// peer.
  void end();

  /// A neighbour that connect() was not called for yet.
  std::optional<Rank> unconnected() const;
  /// What keeps the oldest message under way from going on here.
  std::optional<relay::Wait> wait() const;

  const GroupCounters& counters() const { return counters_; }
  std::uint64_t blocks_received(std::uint64_t message) const;

 private:
  struct Message {
    explicit Message(std::uint64_t n, relay::Relay r) : number(n), relay(std::move(r)) {}
    std::uint64_t number;
    relay::Relay relay;
    Store* store = nullptr;
    std::unique_ptr<fabric::MemoryRegion> region;  // the store's memory, while peers or a NIC reach it
    std::vector<Rank> announced_to;
    std::uint64_t released = 0;
    std::uint64_t consumed = 0;  // blocks; receivers only
    bool delivered = false;
  };

  Group(fabric::Fabric& fabric, const GroupConfig& config, Listener& listener);
  bool is_root() const { return value_of(config_.rank) == 0; }
  Link* link_to(Rank peer);
  Message* find(std::uint64_t number);
  Message* find_by_low_bits(std::uint64_t low_bits, std::uint64_t mask);
  bool is_connected() const;
  bool control_room() const;
  bool write_room() const;
  bool arena_is_free();
  std::uint64_t end_of_window() const { return next_to_finish_ + kMessagesUnderWay; }
  Result<Message*> open(std::uint64_t number);
  Result<std::uint64_t> begin(Store& store, std::uint64_t bytes);
  Result<void> attach(Message& message, Store& store, std::uint64_t bytes);
  Result<void> offer_arena();
  void fail(std::optional<Rank> peer, const Error& error);

  // group_events.cpp
  std::size_t poll_link(Link& link);
  Result<void> on_completion(Link& link, const fabric::Completion& completion);
  Result<void> on_control(Link& link, std::span<const std::byte> bytes);
  Result<void> on_announcement(Link& link, const Announcement& announcement);
  Result<void> on_block(Link& link, const fabric::Completion& completion);
  void place_first_block(Message& message);

  // group_actions.cpp
  Result<std::size_t> drive_all();
  Result<std::size_t> drive(Message& message);
  Result<std::size_t> poll_store(Message& message);
  Result<std::size_t> drain_grants(Message& message);
  Result<std::size_t> drain_writes(Message& message);
  void hint_landings(Message& message);
  std::size_t finish_messages();

  fabric::Fabric& fabric_;
  GroupConfig config_;
  Listener& listener_;
  std::vector<std::unique_ptr<Link>> links_;
  std::deque<Message> messages_;      // open ones, by number
  std::uint64_t next_number_ = 0;     // of the next send() or receive()
  std::uint64_t next_to_finish_ = 0;  // messages below are complete
  std::uint64_t next_arena_ = 0;      // the next message to offer the arena for; it has that of the last
  memory::Arena arena_;               // first blocks of announced messages
  std::unique_ptr<fabric::MemoryRegion> arena_region_;
  std::optional<memory::PageExchange> exchange_;
  std::vector<std::uint64_t> consumed_;  // scratch
  bool failed_ = false;
  GroupCounters counters_;
};

}  // namespace rdmc::group

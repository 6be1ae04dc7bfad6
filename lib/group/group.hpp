// One member's part in one epoch of a group. Each large message in progress is driven by a relay core. The
// links are shared with other groups. The root sends messages. All other members receive the messages in the
// root's order, and relay their blocks. All calls and upcalls happen on the fabric thread. If anything fails,
// the group calls failed() once and informs its neighbours. So the epoch ends at every member. The
// application decides whether the group continues in a next epoch.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "dataplane/fabric/queue_pair.hpp"
#include "dataplane/relay/auto_plan.hpp"
#include "dataplane/relay/relay.hpp"
#include "lib/group/confirmation.hpp"
#include "lib/group/peers.hpp"
#include "lib/group/small_messages.hpp"
#include "lib/group/store.hpp"

namespace rdmc::group {

struct GroupConfig {
  GroupName name{};
  Rank rank{};
  /// The members, indexed by rank. The list must be the same at every member. No peer may appear twice.
  std::vector<PeerId> members{PeerId{}};
  relay::Algorithm algorithm = relay::Algorithm::binomial_pipeline;
  relay::Racks racks{};  ///< The racks of the members, for algorithms that use them.
  std::uint32_t block_bytes = 256 * 1024;
  /// If set, the root chooses the message plan of each message, learns from the durations of the messages,
  /// and announces the plan. `algorithm` and `block_bytes` are then the plan of those messages that the root
  /// sends without plan_for(). They must agree with automatic->fixed. This option must be the same at every
  /// member. It requires `confirms`, and links to almost all members.
  std::optional<relay::AutoConfig> automatic{};
  std::uint32_t max_writes_in_flight = relay::kDefaultWritesInFlight;
  /// The number of stragglers. They are the members with the highest ranks, as in relay::RelayConfig. Must be
  /// 0 if lengths are announced.
  std::uint32_t stragglers = 0;
  /// If true, lengths are announced on the data path. The first block of a message may then arrive in an
  /// arena that was granted in advance. But no arena is granted in advance with `automatic`, or with an
  /// algorithm in which a member's first source depends on the length. In both cases, only the announcement
  /// shows the source of the first block. If false, every member must know the length of each message (and
  /// call send or receive) before the message begins.
  bool announce_lengths = true;
  /// If true, the links to all neighbours must be connected already. If false, create() makes missing links,
  /// which are connected later.
  bool connected_only = false;
  /// If true, members report to each other what they have. Then stable() is called, close() works, and small
  /// messages travel inside frames. Requires announced lengths.
  bool confirms = false;
  /// The size of the longest small message. It is at most kMostSmallBytes. A message of this size must also
  /// fit into the ring of each link.
  std::uint32_t small_bytes = 4096;
  /// The limit for the sum of small_charge() of all small messages that some member has not delivered yet. It
  /// must be the same at every member.
  std::uint64_t small_window = 1 << 20;
  /// If true, the root may offer large messages as mapped messages instead of sending them, if all members
  /// are on its host. This option must be the same at every member. It requires `confirms`.
  bool read_only = false;
  /// The time that a message may wait for this member's memory. After that time the group ends. Zero means no
  /// limit. In both cases, the root learns which member holds up the group.
  Duration memory_patience{};
  /// The time after the end of the epoch within which a neighbour must send its own End record. After that
  /// time its link is closed, and every group that uses the link fails.
  Duration end_patience = seconds(2);
  /// This option is for a group whose members have just lost other members. If a neighbour is not connected,
  /// create() succeeds nevertheless. The group then fails because of that neighbour and tells all other
  /// members. This option takes precedence over `connected_only`.
  bool survives = false;
  /// If false, the group does not inform its neighbours after a failure or end(), because another component
  /// informs them. In that case released() is not called, and the owner destroys the group.
  bool tells_end = true;
};

/// The upcalls of a group. They may call back into the group and may end it, but must not destroy it.
class Observer {
 public:
  virtual ~Observer() = default;
  /// Receiver, with announced lengths: returns the store for message number `message` of `bytes` bytes. The
  /// store must live until completed() or released(). Returns nullptr if the application has no memory now.
  /// The application must then call accept() later.
  virtual Store* incoming(std::uint64_t message, std::uint64_t bytes) = 0;
  /// Receiver: called with the number and the bytes of a small message. The bytes are valid only during the
  /// call. Returns true if the message counts as delivered. Returns false if the application has no memory
  /// for it now. In that case this function is called again in every turn.
  virtual bool small(std::uint64_t, std::span<const std::byte>) { return true; }
  /// Receiver: called with the number of a mapped message, which counts as delivered. It can be read in the
  /// root's memory until release_mapped().
  virtual void mapped(std::uint64_t, const fabric::MappedMemory&) {}
  /// Called when every byte of the message has arrived and is consumed. A receiver gets no such call for
  /// small and mapped messages.
  virtual void delivered(std::uint64_t message) = 0;
  /// Called when the message is delivered, and everything that this member had to relay is acknowledged. The
  /// store is free again.
  virtual void completed(std::uint64_t message) = 0;
  /// Called at most once, when the epoch cannot go on. Messages that are not delivered by now will not be
  /// delivered. `member` is the member to blame, as far as it is known, and can be this member itself. It is
  /// empty after an error of this member's stores or relays, if another member blames this member, or if
  /// give_up_on() named no member.
  virtual void failed(std::optional<Rank> member, const Error& error) = 0;
  /// Called when every member has delivered the messages below this number.
  virtual void stable(std::uint64_t) {}
  /// Only at the root of a group that confirms: called when the hold-up changes. The holder is a member whose
  /// application has given no memory for a message, or has not made the group, for kHoldUp or longer. If
  /// there are several such members, the holder is the one with the lowest message. The argument is empty
  /// when the hold-up has ended.
  virtual void held_up(const std::optional<Holder>&) {}
  /// Root: called with a note that a member has sent by tell_root().
  virtual void told(Rank, std::span<const std::byte>) {}
  /// Called after failed(), end() or close(), when the stores are free: neither the data path nor a peer
  /// accesses them any more. After close() this call certifies that every member has every message; see
  /// is_closed().
  virtual void released() {}
};

struct GroupCounters {
  std::uint64_t blocks_sent = 0, blocks_received = 0, grants_sent = 0, grants_received = 0;
  /// The numbers of the first blocks that were written straight into the message's memory, and of the first
  /// blocks that were copied there.
  std::uint64_t first_blocks_in_place = 0, first_blocks_copied = 0;
  std::uint64_t smalls_sent = 0, smalls_delivered = 0, mapped_delivered = 0;
  std::uint64_t bytes_copied = 0;  ///< the bytes of the first blocks that were copied
};

class Group final : public GroupPart {
 public:
  /// The number of messages that a member works on at the same time, beginning with its oldest unfinished
  /// one. Later messages wait. The number is 64 because a message id in a grant names a message by six bits.
  static constexpr std::uint64_t kMessagesInFlight = Peers::kSlotsPerGroup;
  static_assert(kMessagesInFlight - 1 <= Link::kMessageMask);
  /// If a member's application keeps a message waiting for this time, the root is informed.
  static constexpr Duration kHoldUp = seconds(1);
  static constexpr std::uint32_t kMostSmallBytes = Link::kMostFrameBytes - 256;
  /// The limit for the notes of one member that another member keeps at one moment, because it has not passed
  /// them on or because they are not whole.
  static constexpr std::size_t kMostNoteBytes = 4 << 20;

  /// Makes the missing links to neighbours. Sends nothing if all links exist. Errors: invalid_argument if the
  /// group is empty, if a member appears twice, if the rank is not a member's, or if the options contradict
  /// each other; peer_failed if `connected_only` is set and a neighbour is not connected; already_exists and
  /// resource_limit as in Peers::add; and the errors of Link::create.
  static Result<std::unique_ptr<Group>> create(Peers& peers, const GroupConfig& config, Observer& observer);
  /// If released() was not called, closes the links on which a peer may still write into this member's memory
  /// or on which writes are in flight. All groups that use such a link fail. After the destructor has
  /// returned, no byte of any store is accessed.
  ~Group() override;

  /// Root: sends `bytes` bytes of `store` as the next message and returns its number. The message waits until
  /// earlier messages permit it to begin. `plan` must come from plan_for(); nullopt means the plan of the
  /// configuration. Errors: invalid_argument if this member is not the root, or if the store is too small for
  /// the schedule; peer_failed if the epoch has ended; cancelled after close().
  Result<std::uint64_t> send(Store& store, std::uint64_t bytes,
                             std::optional<relay::MessagePlan> plan = std::nullopt);
  /// Root: returns the plan for the next message of `bytes` bytes.
  relay::MessagePlan plan_for(std::uint64_t bytes) const;
  /// Root: true while the message in progress is a trial of a new plan. In that case send nothing before
  /// stable() is called, because the trial measures how long the message takes alone.
  bool is_trying() const { return timed_ && timed_->is_trial; }
  /// Root: true if a message of `bytes` bytes should be the trial of a new plan while other messages are in
  /// progress. In that case send it after stable() was called.
  bool should_wait(std::uint64_t bytes) const;
  /// Returns the plan of this message, or the plan of the configuration if the message is not in progress.
  relay::MessagePlan plan_of(std::uint64_t message) const;
  /// Root: sends a small message. The bytes must stay unchanged until completed(). Errors: those of send(),
  /// and invalid_argument if the message is longer than `small_bytes` or the group does not confirm.
  Result<std::uint64_t> send_small(std::span<const std::byte> bytes);
  /// Root: offers a large message to all other members as a mapped message. The bytes must stay unchanged
  /// until completed(), which is called when every member has released the message. Returns nullopt, without
  /// any effect, if this is not possible, for example because a member cannot map this memory. In that case
  /// use send().
  std::optional<std::uint64_t> try_show(std::span<const std::byte> bytes);
  /// Receiver: tells the group that the application no longer needs this mapped message.
  void release_mapped(std::uint64_t message);
  /// Receiver, without announced lengths: gives the store for the next message, which has `bytes` bytes.
  /// Returns the number of the message. Errors: invalid_argument if this member is the root, if lengths are
  /// announced, or if the store is too small; peer_failed if the epoch has ended.
  Result<std::uint64_t> receive(Store& store, std::uint64_t bytes);
  /// Receiver, with announced lengths: gives the store that incoming() did not return. Errors:
  /// invalid_argument if this message does not wait for memory, or if the store is too small; peer_failed if
  /// the epoch has ended.
  Result<void> accept(std::uint64_t message, Store& store);

  /// Ends the epoch here and, by telling the neighbours, at every member. The neighbours learn `cause`. Here
  /// released() is called, but failed() is not.
  void end(const Error& cause);
  /// Ends the epoch with failed(), here and at every member, because this member cannot go on. This member is
  /// to blame.
  void give_up(const Error& error) { fail(config_.rank, error); }
  /// Ends the epoch with failed(), here and at every member, because of `member`. To be used for a failure
  /// that was found outside this group, for example in a recovery round of the same epoch.
  void give_up_on(std::optional<Rank> member, const Error& error) { fail(member, error); }
  bool is_released() const { return phase_ == Phase::released; }
  /// Takes part in the closing barrier. released() is called when all members have called close(), have all
  /// messages, and have passed on all that they had to pass on. The root must send nothing more. Errors:
  /// peer_failed if the epoch has ended, cancelled if close() was called before, invalid_argument if the
  /// group does not confirm.
  Result<void> close();
  bool is_closed() const { return closed_; }
  /// Sends a note to the root. Must be called only at a member that is not the root, in a group that
  /// confirms. Notes arrive in their order, unless the epoch ends before. There is no flow control: the notes
  /// that are on their way must not exceed kMostNoteBytes.
  void tell_root(std::span<const std::byte> bytes);
  /// If true, a neighbour's silence is a failure even when no message is in progress.
  void set_watching(bool watching) { watching_ = watching; }
  /// Sets whether something waits for memory of the application. The time `memory_patience` runs only while
  /// this is true. With nullopt, the group derives the value from its own messages.
  void set_memory_awaited(std::optional<bool> awaited) { memory_awaited_ = awaited; }
  /// Messages below this number are delivered here. Messages below stable() are delivered at every member.
  std::uint64_t delivered() const { return next_to_deliver_; }
  std::uint64_t stable() const { return stable_; }

  const GroupConfig& config() const { return config_; }
  /// The reason why the oldest message in progress does not go on at this member. Empty if there is no such
  /// message, or if nothing delays it.
  std::optional<relay::Wait> wait() const;
  /// Finds the members that hold up the block slots of the oldest message in progress, as
  /// relay::Relay::find_lagging() does.
  std::vector<Rank> find_lagging();
  std::vector<Rank> neighbours() const;

  const GroupCounters& counters() const { return counters_; }
  std::uint64_t blocks_received(std::uint64_t message) const;
  /// A message that was not delivered and has memory here, and the blocks of it that have arrived.
  struct Partial {
    std::uint64_t message = 0, bytes = 0;
    relay::BlockMap held;
  };
  std::vector<Partial> partial_messages() const;

  const GroupName& name() const override { return config_.name; }
  void on_record(Link& link, const Record& record) override;
  void on_block(Link& link, const fabric::Completion& completion) override;
  void on_write_complete(Link& link, std::uint64_t message_low_bits, std::uint64_t block) override;
  void on_link_lost(Link& link, const Error& cause) override;
  void on_out_of_memory() override { give_up({Errc::resource_limit, "no memory"}); }
  std::size_t work(Time now) override;
  bool is_busy() const override;
  Time next_deadline() const override;
  bool uses(const Link& link) const override { return find(link) != nullptr; }

 private:
  /// In `ending`, the epoch has failed or end() was called, and peers may still write. In `released`, the
  /// group does nothing any more.
  enum class Phase : std::uint8_t { open, ending, released };
  struct Message {
    Message(std::uint64_t n, const relay::MessagePlan& p, relay::Relay r)
        : number(n), plan(p), relay(std::move(r)) {}
    std::uint64_t number;
    relay::MessagePlan plan;
    relay::Relay relay;
    Store* store = nullptr;
    // Registers the store's memory while peers or a NIC access it.
    std::unique_ptr<fabric::MemoryRegion> region;
    std::size_t announced = 0;  // Edges below this index need no announcement any more.
    std::uint64_t released = 0;
    std::uint64_t consumed = 0;  // The number of consumed blocks; only at receivers.
    bool upcalled = false;       // incoming() was called.
    bool delivered = false;
  };
  /// A neighbour of this member in the group, and the state of the traffic with it.
  struct Edge {
    Rank rank{};
    Link* link = nullptr;      // Null if the link was lost.
    std::uint32_t writes = 0;  // This member's writes that are not completed.
    bool granted = false;      // The neighbour may write into this member's memory.
    std::uint64_t kept = 0;    // The number of the neighbour's grants in kept_grants_.
    bool is_made = true;       // The neighbour has made the group, as far as is known.
    bool said_end = false, heard_end = false;
    bool is_quiet() const { return link == nullptr || (heard_end && writes == 0); }
  };

  Group(Peers& peers, const GroupConfig& config, Observer& observer);
  static Result<void> check(const GroupConfig& config);
  Result<void> make_edges();
  bool is_root() const { return value_of(config_.rank) == 0; }
  /// True if this member knows the source of the next first block before the message is announced.
  bool grants_ahead() const {
    return config_.announce_lengths && !config_.automatic && !first_source_needs_length(config_.algorithm) &&
           !is_root();
  }
  Edge* find(Rank rank);
  Edge* find(const Link& link);
  const Edge* find(const Link& link) const;
  Message* find(std::uint64_t number);
  Message* find_by_low_bits(std::uint64_t low_bits, std::uint64_t mask);
  bool control_room();
  bool write_room() const;
  bool arena_is_free();
  std::uint64_t end_of_window() const { return next_to_finish_ + kMessagesInFlight; }
  relay::RelayConfig relay_config(std::uint64_t number, const relay::MessagePlan& plan) const;
  relay::MessagePlan usual_plan() const { return {config_.algorithm, config_.block_bytes}; }
  std::uint64_t most_large_ahead() const;
  std::uint64_t most_messages_ahead() const { return most_large_ahead() + SmallWindow::kMostAhead; }
  Result<Message*> open(std::uint64_t number, const relay::MessagePlan& plan);
  Result<std::uint64_t> begin(Store& store, std::uint64_t bytes, const relay::MessagePlan& plan);
  Result<void> attach(Message& message, Store& store, std::uint64_t bytes);

  Result<void> may_send() const;
  /// The member that holds up the group, as far as this member knows by itself.
  std::optional<Holder> own_holder() const;

  // Defined in group_small.cpp.
  bool forward(const SmallMessages::Entry& small);
  void drop_arena_message(std::uint64_t number);
  Result<void> on_small(Edge& edge, const SmallMessage& small);
  Result<void> check_turn(const Edge& edge, std::uint64_t number);
  bool take_small(SmallMessages::Entry& small);
  void count_delivered(SmallMessages::Entry& small);
  void forget_bytes(SmallMessages::Entry& small);
  std::size_t forward_smalls();

  // Defined in group_mapped.cpp.
  Result<void> on_mapped(Edge& edge, const MappedMessage& mapped);
  bool take_mapped(SmallMessages::Entry& small);
  bool is_released(const SmallMessages::Entry& small) const;

  // Defined in group_confirming.cpp.
  Result<void> on_report(Edge& edge, const Report& report);
  Result<void> on_verdict(Edge& edge, const Verdict& verdict);
  void confirm_own();
  std::size_t confirm(Time now);
  void tell_who_holds_up(const std::optional<Holder>& holder);

  // Defined in group_automatic.cpp.
  Result<relay::MessagePlan> announced_plan(const Announcement& announcement) const;
  Result<void> keep_grant(Edge& from, const GrantRecord& record);
  void drop_grants_below(std::uint64_t message);
  void use_kept_grants(Message& message);
  void count_sent(std::uint64_t number, std::uint64_t bytes, const relay::MessagePlan& plan, bool is_alone);
  void learn(Time now);

  // Defined in group_notes.cpp.
  void add_note(Rank from, std::span<const std::byte> bytes, bool is_last);
  Result<void> on_note(Edge& edge, const Note& note);
  std::size_t pass_notes();

  // Defined in group_ending.cpp.
  void fail(std::optional<Rank> member, const Error& error);
  void begin_ending(std::optional<Rank> member, const Error& error);
  void tell_failure();
  std::size_t go_on_ending(Time now);
  void release();
  void on_end(Edge& edge, const End& end);

  // Defined in group_events.cpp.
  Result<void> on_announcement(Edge& edge, const Announcement& announcement);
  Result<void> on_grant(Edge& edge, const GrantRecord& record);
  Result<void> take_block(Edge& edge, const fabric::Completion& completion);
  void place_first_block(Message& message, bool is_in_place);
  void spare_arena(Message& message);

  // Defined in group_actions.cpp.
  bool is_connected() const;
  const Edge* lost_edge() const;
  Result<std::size_t> drive_all();
  Result<std::size_t> drive(Message& message);
  Result<std::size_t> announce(Message& message);
  Result<std::size_t> ask_for_memory(Message& message);
  Result<std::size_t> poll_store(Message& message);
  Result<std::size_t> drain_grants(Message& message);
  Result<std::size_t> drain_writes(Message& message);
  Result<void> offer_arena();
  void hint_expected_writes(Message& message);
  std::size_t finish_messages();
  bool deliver_next();
  bool finish_next();
  void watch_memory(Time now);
  Time memory_deadline() const;

  Peers& peers_;
  GroupConfig config_;
  Observer& observer_;
  std::uint32_t index_ = 0;  // The index of this group in the link table.
  bool added_ = false;
  std::vector<Edge> edges_;  // Sorted by rank.
  // Unfinished messages, sorted by number, without those known to be small or mapped.
  std::deque<Message> messages_;
  std::uint64_t next_number_ = 0;  // The number of the next send() or receive().
  // For each message below this number, incoming() was called or the message is delivered.
  std::uint64_t next_to_ask_ = 0;
  std::uint64_t next_to_deliver_ = 0;  // Messages below this number are delivered.
  std::uint64_t next_to_finish_ = 0;   // Messages below this number are complete.
  // The next message for which the first-block arena is offered.
  std::uint64_t next_arena_ = 0;
  // The message for which the first-block arena was offered last.
  std::optional<std::uint64_t> arena_holder_;
  std::uint64_t last_large_ = 0;  // One more than the highest number of an announced message.
  // True if a hint for the first-block arena was given and no block has arrived there since then.
  bool arena_is_expected_ = false;
  memory::Arena arena_;  // The first-block arena.
  std::unique_ptr<fabric::MemoryRegion> arena_region_;
  std::vector<std::uint64_t> consumed_;       // Scratch memory of poll_store().
  std::vector<relay::Algorithm> algorithms_;  // The algorithms that messages may use.
  std::optional<relay::AutoPlan> auto_plan_;  // Exists only at the root.
  /// The message whose duration is measured. All messages before it were stable when it was sent.
  struct Timed {
    std::uint64_t message = 0, bytes = 0;
    relay::MessagePlan plan;
    bool is_trial = false;
    std::optional<Time> begin{};
  };
  std::optional<Timed> timed_;
  // The grants for messages that are not announced yet.
  std::map<std::pair<std::uint64_t, Rank>, relay::BlockGrant> kept_grants_;
  std::optional<std::size_t> tree_parent_;  // An index into edges_.
  std::vector<std::size_t> tree_children_;  // Indices into edges_.
  Confirmation confirmation_{true, 0};
  SmallMessages smalls_;  // The small and mapped messages that had to wait and are not finished.
  struct KeptNote {
    Rank from{};
    bool is_last = false;
    std::vector<std::byte> bytes;
  };
  std::deque<KeptNote> notes_;              // Notes that must be passed on to the parent.
  std::map<Rank, std::size_t> note_bytes_;  // The size of the notes from each member that are here.
  std::map<Rank, std::vector<std::byte>> note_parts_;  // Root: the parts of incomplete notes.
  SmallWindow small_window_;
  std::uint64_t next_small_ = 0;        // Messages below this number can no longer arrive as small ones.
  std::uint64_t kept_charge_ = 0;       // At receivers, the charge of the messages in smalls_.
  std::uint64_t charge_delivered_ = 0;  // At receivers, the charge of all delivered small messages.
  std::uint64_t stable_ = 0;
  // One more than the number of the last message that waited for this member's memory.
  std::uint64_t waited_ = 0;
  // The time since which message memory_for_ has waited for memory; never() if it does not wait.
  Time memory_since_ = Time::never();
  std::uint64_t memory_for_ = 0;
  // At the root, the holder in the last call of held_up(). At other members, this member itself if it holds
  // up the group.
  std::optional<Holder> holder_;
  std::optional<bool> memory_awaited_;
  bool watching_ = false;
  bool closing_ = false, closed_ = false;
  Phase phase_ = Phase::open;
  std::optional<Rank> blamed_;
  Error cause_{};
  bool untold_ = false;  // failed() must still be called.
  Time end_deadline_ = Time::never();
  GroupCounters counters_;
};

}  // namespace rdmc::group

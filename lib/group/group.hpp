// One member's part in one epoch of a group: the messages under way, each driven by a relay core, over links
// that it shares with other groups. The root sends, everybody receives and relays, in the root's order. All
// calls and upcalls happen on the engine thread that owns the fabric. When anything fails the group reports
// it, once, and tells its neighbours, so that the epoch ends everywhere; forming a successor is the
// application's.
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
#include "dataplane/memory/page_exchange.hpp"
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
  std::vector<PeerId> members{PeerId{}};  ///< by rank; the same list at every member, of different peers
  relay::Algorithm algorithm = relay::Algorithm::binomial_pipeline;
  relay::Racks racks{};  ///< of the members, for algorithms that ask for them
  std::uint32_t block_bytes = 256 * 1024;
  /// The root chooses for each message how it travels, learns from how long that took, and announces it.
  /// `algorithm` and `block_bytes` are those of messages that it sends without asking plan_for(), and agree
  /// with what is fixed. The same at every member; needs `confirms` and links to almost all.
  std::optional<relay::AutoConfig> automatic{};
  std::uint32_t max_writes_in_flight = relay::kDefaultWritesInFlight;
  /// So many members with the highest ranks are stragglers, as in relay::RelayConfig. Only without announced
  /// lengths.
  std::uint32_t stragglers = 0;
  /// Lengths are announced on the data path. The first block of a message may land in an arena that was
  /// granted in advance, unless its source depends on what the announcement says: with `automatic`, and by an
  /// algorithm whose first source needs the length. False: every member knows each message's length (calls
  /// send or receive) before it begins.
  bool announce_lengths = true;
  /// Links to neighbours must be connected; false: they are made here and connected later.
  bool connected_only = false;
  /// Members tell each other what they have: stable() is called, close() works, and small messages travel
  /// inside frames. Needs announced lengths.
  bool confirms = false;
  /// The longest small message; at most kMostSmallBytes, and what the links' rings have room for.
  std::uint32_t small_bytes = 4096;
  /// Of small messages that somebody has not delivered, small_charge() of each; the same at every member.
  std::uint64_t small_window = 1 << 20;
  /// The root may show large messages to all others, where they share its host, instead of sending them. The
  /// same at every member; needs `confirms`.
  bool read_only = false;
  /// A message that waits so long for this member's memory ends the group. Zero: never; the root is told who
  /// keeps the group waiting.
  Duration memory_patience{};
  /// A neighbour that does not say so long after the epoch's end that it is over there, too, loses its link,
  /// and all groups with it.
  Duration end_patience = seconds(2);
  /// Among members who have just lost others: a neighbour that is not connected is no refusal by create(),
  /// the group fails for it, and tells everybody. Goes before `connected_only`.
  bool survives = false;
  /// False: neighbours are told nothing, because somebody else tells them; the end is the group's
  /// destruction.
  bool tells_end = true;
};

/// Upcalls; they may call back into the group, and end it, but not destroy it.
class Observer {
 public:
  virtual ~Observer() = default;
  /// Receiver, announced lengths: where shall message number `message` of `bytes` bytes go? The store lives
  /// until completed() or released(). nullptr: the application can't take it now and will call accept().
  virtual Store* incoming(std::uint64_t message, std::uint64_t bytes) = 0;
  /// Receiver: message number `message` is small and here; the bytes are good for as long as the call. It
  /// counts as delivered with the answer true. False: the application has no memory for it now; it is asked
  /// again in every turn.
  virtual bool small(std::uint64_t, std::span<const std::byte>) { return true; }
  /// Receiver: message number `message` can be read in the root's memory until release_mapped(). It is
  /// delivered.
  virtual void mapped(std::uint64_t, const fabric::MappedMemory&) {}
  /// Every byte of the message is here and consumed. Not called of a small message at a receiver.
  virtual void delivered(std::uint64_t message) = 0;
  /// Delivered, and everything that this member had to relay is acknowledged: the store is free again.
  virtual void completed(std::uint64_t message) = 0;
  /// The epoch can't go on: what was not delivered will not be. `member`: who is to blame, as far as is
  /// known; nobody if the fault is this member's own, if another member says that it is, or if the end was
  /// wished. At most once.
  virtual void failed(std::optional<Rank> member, const Error& error) = 0;
  /// Every member has delivered the messages below this number.
  virtual void stable(std::uint64_t) {}
  /// Root: that member's application has kept a message waiting for memory, or for the group to be made
  /// there, for kHoldUp or more, and of several it does so with the lowest. Nothing: nobody does any more.
  /// Only in a group that confirms.
  virtual void held_up(const std::optional<Holder>&) {}
  /// Root: a member has told this by tell_root().
  virtual void told(Rank, std::span<const std::byte>) {}
  /// After failed(), end() or close(): the stores are free, neither the data path nor a peer touches them any
  /// more. After close() it certifies that every member has every message: is_closed().
  virtual void released() {}
};

struct GroupCounters {
  std::uint64_t blocks_sent = 0, blocks_received = 0, grants_sent = 0, grants_received = 0;
  /// Exchanged: or written straight into place.
  std::uint64_t first_blocks_exchanged = 0, first_blocks_copied = 0;
  std::uint64_t smalls_sent = 0, smalls_delivered = 0, views_delivered = 0;
  std::uint64_t bytes_copied = 0;  ///< of first blocks: what the hand-off could not exchange
};

class Group final : public GroupPart {
 public:
  /// How many messages a member works on at a time, beginning with its oldest unfinished one; more wait their
  /// turn. Slot ids name a message by six bits.
  static constexpr std::uint64_t kMessagesUnderWay = Peers::kSlotsPerGroup;
  static_assert(kMessagesUnderWay - 1 <= Link::kMessageMask);
  /// An application that keeps a message waiting for so long is named to the root.
  static constexpr Duration kHoldUp = seconds(1);
  static constexpr std::uint32_t kMostSmallBytes = Link::kMostFrameBytes - 256;
  static constexpr std::size_t kMostNoteBytes = 1 << 20;  ///< of one member

  /// Makes the links to neighbours that are not there; when all are, nothing is sent. Errors:
  /// invalid_argument (an empty group, a member twice, a rank that is none, block size), already_exists and
  /// resource_limit (of Peers::add).
  static Result<std::unique_ptr<Group>> create(Peers& peers, const GroupConfig& config, Observer& observer);
  /// Without released(), links on which a peer may still write into our memory are ended, and all groups with
  /// them: from its return on no byte of any store is touched.
  ~Group() override;

  /// Root: sends `bytes` bytes of `store` as the next message and returns its number. Messages queue. `plan`:
  /// one of plan_for(); nothing: as the group's. Errors: invalid_argument (not the root; a ring too small for
  /// the schedule), peer_failed (after failed()).
  Result<std::uint64_t> send(Store& store, std::uint64_t bytes,
                             std::optional<relay::MessagePlan> plan = std::nullopt);
  /// Root: how the next message of so many bytes should travel.
  relay::MessagePlan plan_for(std::uint64_t bytes) const;
  /// Root: nothing should be sent before stable(), since what is under way is to show how long it takes
  /// alone.
  bool is_trying() const { return timed_ && timed_->is_trial; }
  /// Root: so should what plan_for() says of a message of so many bytes, which something under way forbids
  /// until stable().
  bool should_wait(std::uint64_t bytes) const;
  /// How this message under way travels.
  relay::MessagePlan plan_of(std::uint64_t message) const;
  /// Root: sends a small message, which is the application's until completed(). Errors: as send.
  Result<std::uint64_t> send_small(std::span<const std::byte> bytes);
  /// Root: shows all others a large message where it lies, to be left as it is until completed(): when
  /// everybody has released it. Nothing, and nothing done: send it, since somebody cannot see that memory.
  std::optional<std::uint64_t> try_show(std::span<const std::byte> bytes);
  /// Receiver: it needs this message of mapped() no longer.
  void release_mapped(std::uint64_t message);
  /// Receiver, lengths known: the next message has `bytes` bytes and goes into `store`. Errors: as send.
  Result<std::uint64_t> receive(Store& store, std::uint64_t bytes);
  /// Receiver, announced lengths: the answer that incoming() did not have.
  Result<void> accept(std::uint64_t message, Store& store);

  /// Ends the epoch here and, by telling the neighbours, everywhere; released() follows. They hear `cause`.
  void end(const Error& cause);
  /// This member cannot go on: the epoch ends with failed(), here and everywhere, and it is to blame.
  void give_up(const Error& error) { fail(config_.rank, error); }
  /// So it does because of `member`; of another part of the same group's epoch this member knows it.
  void give_up_on(std::optional<Rank> member, const Error& error) { fail(member, error); }
  bool is_released() const { return phase_ == Phase::released; }
  /// This member wants the end, as a barrier: released() comes when all members have wanted it, have all
  /// messages, and have passed on what they had to. The root sends nothing more. Errors: peer_failed,
  /// cancelled (wanted before), invalid_argument (nothing is confirmed here).
  Result<void> close();
  bool is_closed() const { return closed_; }
  /// Not the root, in a group that confirms: sends it a note, at most kMostNoteBytes of them in all.
  void tell_root(std::span<const std::byte> bytes);
  /// A neighbour's silence is a failure even when nothing is under way.
  void set_watching(bool watching) { watching_ = watching; }
  /// Whether the application keeps something waiting for memory, so that `memory_patience` counts, is this;
  /// nothing: whether it does so with a message of this group.
  void set_memory_awaited(std::optional<bool> awaited) { memory_awaited_ = awaited; }
  /// Messages below this number were delivered here; every member has those below stable().
  std::uint64_t delivered() const { return next_to_deliver_; }
  std::uint64_t stable() const { return stable_; }

  const GroupConfig& config() const { return config_; }
  /// What keeps the oldest message under way from going on here.
  std::optional<relay::Wait> wait() const;
  /// Finds those who hold up the slots of that message, as relay::Relay::find_lagging() does.
  std::vector<Rank> find_lagging();
  std::vector<Rank> neighbours() const;

  const GroupCounters& counters() const { return counters_; }
  std::uint64_t blocks_received(std::uint64_t message) const;
  /// Of each message that was not delivered and has memory here: what it has of it.
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
  /// released: after failed() and the peace that follows; the group does nothing any more.
  enum class Phase : std::uint8_t { open, ending, released };
  struct Message {
    Message(std::uint64_t n, const relay::MessagePlan& p, relay::Relay r)
        : number(n), plan(p), relay(std::move(r)) {}
    std::uint64_t number;
    relay::MessagePlan plan;
    relay::Relay relay;
    Store* store = nullptr;
    std::unique_ptr<fabric::MemoryRegion> region;  // the store's memory, while peers or a NIC reach it
    std::size_t announced = 0;                     // to so many of the children
    std::uint64_t released = 0;
    std::uint64_t consumed = 0;  // blocks; receivers only
    bool upcalled = false;       // incoming()
    bool delivered = false;
  };
  /// A neighbour, and what stands between us in this group.
  struct Edge {
    Rank rank{};
    Link* link = nullptr;      // none: it was lost
    std::uint32_t writes = 0;  // ours, not completed
    bool granted = false;      // it may write here
    std::uint64_t kept = 0;    // of its grants
    bool is_made = true;       // the group, at the other end
    bool said_end = false, heard_end = false;
    bool is_quiet() const { return link == nullptr || (heard_end && writes == 0); }
  };

  Group(Peers& peers, const GroupConfig& config, Observer& observer);
  static Result<void> check(const GroupConfig& config);
  Result<void> make_edges();
  bool is_root() const { return value_of(config_.rank) == 0; }
  /// This member knows whose first block comes next before the message is announced.
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
  std::uint64_t end_of_window() const { return next_to_finish_ + kMessagesUnderWay; }
  relay::RelayConfig relay_config(std::uint64_t number, const relay::MessagePlan& plan) const;
  relay::MessagePlan usual_plan() const { return {config_.algorithm, config_.block_bytes}; }
  std::uint64_t most_large_ahead() const;
  std::uint64_t most_messages_ahead() const { return most_large_ahead() + SmallWindow::kMostAhead; }
  Result<Message*> open(std::uint64_t number, const relay::MessagePlan& plan);
  Result<std::uint64_t> begin(Store& store, std::uint64_t bytes, const relay::MessagePlan& plan);
  Result<void> attach(Message& message, Store& store, std::uint64_t bytes);

  Result<void> may_send() const;
  /// Who holds up the group, as far as this member knows by itself.
  std::optional<Holder> own_holder() const;

  // group_small.cpp
  bool forward(const SmallMessages::Entry& small);
  void drop_arena_message(std::uint64_t number);
  Result<void> on_small(Edge& edge, const SmallMessage& small);
  Result<void> check_turn(const Edge& edge, std::uint64_t number);
  bool take_small(SmallMessages::Entry& small);
  void count_delivered(SmallMessages::Entry& small);
  void forget_bytes(SmallMessages::Entry& small);
  std::size_t forward_smalls();

  // group_mapped.cpp
  Result<void> on_mapped(Edge& edge, const MappedMessage& mapped);
  bool take_view(SmallMessages::Entry& small);
  bool is_released(const SmallMessages::Entry& small) const;

  // group_confirming.cpp
  Result<void> on_report(Edge& edge, const Report& report);
  Result<void> on_verdict(Edge& edge, const Verdict& verdict);
  void confirm_own();
  std::size_t confirm(Time now);
  void tell_who_holds_up(const std::optional<Holder>& holder);

  // group_automatic.cpp
  Result<relay::MessagePlan> announced_plan(const Announcement& announcement) const;
  Result<void> keep_grant(Edge& from, const GrantRecord& record);
  void drop_grants_below(std::uint64_t message);
  void use_kept_grants(Message& message);
  void count_sent(std::uint64_t number, std::uint64_t bytes, const relay::MessagePlan& plan, bool is_alone);
  void learn(Time now);

  // group_notes.cpp
  void add_note(Rank from, std::span<const std::byte> bytes, bool is_last);
  Result<void> on_note(Edge& edge, const Note& note);
  std::size_t pass_notes();

  // group_ending.cpp
  void fail(std::optional<Rank> member, const Error& error);
  void begin_ending(std::optional<Rank> member, const Error& error);
  void tell_failure();
  std::size_t go_on_ending(Time now);
  void release();
  void on_end(Edge& edge, const End& end);

  // group_events.cpp
  Result<void> on_announcement(Edge& edge, const Announcement& announcement);
  Result<void> on_grant(Edge& edge, const GrantRecord& record);
  Result<void> take_block(Edge& edge, const fabric::Completion& completion);
  void place_first_block(Message& message, bool is_in_place);
  void spare_arena(Message& message);

  // group_actions.cpp
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
  void hint_landings(Message& message);
  std::size_t finish_messages();
  bool deliver_next();
  bool finish_next();
  void watch_memory(Time now);
  Time memory_deadline() const;

  Peers& peers_;
  GroupConfig config_;
  Observer& observer_;
  std::uint32_t index_ = 0;  // among the peers' groups
  bool added_ = false;
  std::vector<Edge> edges_;                    // by rank
  std::deque<Message> messages_;               // open ones, by number
  std::uint64_t next_number_ = 0;              // of the next send() or receive()
  std::uint64_t next_to_ask_ = 0;              // incoming() was called of those below, or small()
  std::uint64_t next_to_deliver_ = 0;          // messages below are delivered …
  std::uint64_t next_to_finish_ = 0;           // … and complete
  std::uint64_t next_arena_ = 0;               // the next message to offer the arena for …
  std::optional<std::uint64_t> arena_holder_;  // … and the one that has it, or had it last
  std::uint64_t last_large_ = 0;               // one more than the highest message announced
  bool arena_is_expected_ = false;             // a hint is out that no block has used up
  memory::Arena arena_;                        // first blocks of announced messages
  std::unique_ptr<fabric::MemoryRegion> arena_region_;
  std::optional<memory::PageExchange> exchange_;
  std::vector<std::uint64_t> consumed_;       // scratch
  std::vector<relay::Algorithm> algorithms_;  // that messages may travel by
  std::optional<relay::AutoPlan> auto_plan_;  // the root's
  /// The message whose time is taken, since nothing else was under way when it was sent.
  struct Timed {
    std::uint64_t message = 0, bytes = 0;
    relay::MessagePlan plan;
    bool is_trial = false;
    std::optional<Time> begin{};
  };
  std::optional<Timed> timed_;
  std::map<std::pair<std::uint64_t, Rank>, relay::BlockGrant> kept_grants_;  // of messages not announced yet
  std::optional<std::size_t> tree_parent_;                                   // an edge
  std::vector<std::size_t> tree_children_;                                   // edges
  Confirmation confirmation_{true, 0};
  SmallMessages smalls_;  // not finished, in as far as they had to wait
  struct KeptNote {
    Rank from{};
    bool is_last = false;
    std::vector<std::byte> bytes;
  };
  std::deque<KeptNote> notes_;                         // to pass on
  std::map<Rank, std::size_t> note_bytes_;             // that came from below
  std::map<Rank, std::vector<std::byte>> note_parts_;  // root: of notes that are not complete
  SmallWindow small_window_;
  std::uint64_t next_small_ = 0;        // no lower number is small any more
  std::uint64_t kept_charge_ = 0;       // of smalls_, at receivers
  std::uint64_t charge_delivered_ = 0;  // at receivers
  std::uint64_t stable_ = 0;
  std::uint64_t waited_ = 0;           // one more than the last message that waited for this member's memory
  Time memory_since_ = Time::never();  // the oldest message has waited for memory since then
  std::uint64_t memory_for_ = 0;       // its number
  std::optional<Holder> holder_;       // ourselves; at the root whom it was told of last
  std::optional<bool> memory_awaited_;
  bool watching_ = false;
  bool closing_ = false, closed_ = false;
  Phase phase_ = Phase::open;
  std::optional<Rank> blamed_;
  Error cause_{};
  bool untold_ = false;  // failed() is still to be called
  Time end_deadline_ = Time::never();
  GroupCounters counters_;
};

}  // namespace rdmc::group

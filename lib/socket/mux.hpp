// All connections between the sockets of two processes, over the one channel that the two have: tells records
// apart by the connection they name, and gives every stream that wants to say something its turn in the next
// frame. A connection costs an entry here and no packet of its own beyond its records, so there may be
// thousands, and they come and go at the rate at which frames are filled. Pure; under the sockets' lock.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/socket/records.hpp"
#include "lib/socket/stream.hpp"
#include "lib/socket/turns.hpp"

namespace rdmc::sockets {

class Mux;

/// A connection that the peer asks for.
struct Asked {
  std::weak_ptr<Mux> mux;
  ConnectionId id{};
  Address from, to;
  ConnectionKind kind{};
};

/// Who knows what listens here.
class Opens {
 public:
  virtual ~Opens() = default;
  /// `stream` is the connection's end here. True: it may come to be - the peer waits until accept() -; false:
  /// nobody listens at `asked.to`.
  virtual bool on_open(const Asked& asked, const std::shared_ptr<Stream>& stream) = 0;
  /// The peer says that nobody listens there, or is lost. True: `stream` will ask somebody else.
  virtual bool on_refused(const std::shared_ptr<Stream>&) { return false; }
};

class Mux final : public Outlet, public std::enable_shared_from_this<Mux> {
 public:
  /// Answers to a peer that asks and does not read what it is told; one more, and it is a peer no more.
  static constexpr std::size_t kMostAnswers = 1 << 16;
  /// What is kept of all its messages that are longer than a window; who begins more is reset.
  static constexpr std::size_t kMostOfMessages = 256 << 20;

  /// `dialled`: whether we made the channel; the peer says the opposite.
  /// `description`: of what carries the frames, for people.
  Mux(Opens& opens, bool dialled, std::string description = "self")
      : opens_(opens), next_id_(dialled ? 1 : 2), dialled_(dialled), description_(std::move(description)) {}
  ~Mux() override;
  Mux(const Mux&) = delete;
  Mux& operator=(const Mux&) = delete;

  /// The peer is on another host: to it nobody listens at our loopback addresses. Before any frame.
  void set_elsewhere() { is_elsewhere_ = true; }
  bool is_elsewhere() const { return is_elsewhere_; }

  /// `kick` is called when there is something to say, from inside whatever caused it.
  void on_kick(std::function<void()> kick) { kick_ = std::move(kick); }

  /// Asks the peer for a connection; `stream` is connecting.
  void open(const std::shared_ptr<Stream>& stream, const Address& from, const Address& to);
  /// What on_open said may be, is.
  void accept(ConnectionId id);

  /// The records of one frame, in order. Errors: protocol_error, after which the peer cannot be understood.
  Result<void> on_frame(std::span<const std::byte> records);
  /// Fills `out` (>= kMostControlBytes) with records; returns how many bytes, 0: there is nothing to say.
  std::size_t fill(std::span<std::byte> out);
  /// Large messages of ours that wait for slots.
  bool has_chunks() const { return !chunkers_.empty(); }
  bool has_something() const { return !controls_.empty() || !ready_.empty(); }

  // -- large messages: chunks.hpp; mux_chunks.cpp --

  /// A stream of the peer's has asked for slots, and there is no memory for them yet.
  bool wants_slots() const { return !askers_.empty() && !has_slots_; }
  /// Null: there will be none.
  void use_slots(std::shared_ptr<SlotMemory> slots);
  /// Where the peer has been told that it may write, since the last call, in this order.
  std::vector<std::span<std::byte>> take_granted() { return std::exchange(granted_, {}); }
  /// The peer has written `bytes` bytes into a slot. Errors: protocol_error.
  Result<void> on_chunk(std::uint32_t slot, std::size_t bytes);
  /// What a stream of ours has to write now, behind all that fill() has given out.
  std::optional<std::pair<std::shared_ptr<Stream>, ChunkWrite>> next_chunk();

  /// The peer is no more: every connection ends with `error`, and nothing is sent.
  void lose(int error);
  bool is_lost() const { return is_lost_; }

  /// The memory for lanes that the two processes share, if they are on one host: `ready`, the peer has it.
  void use_lanes(std::shared_ptr<LanePool> lanes, bool ready);
  /// Who has dialled makes it.
  bool offers_lanes() const { return dialled_; }
  bool has_lanes() const { return lanes_ != nullptr; }
  /// Connections of which an end has still something to say or to hear.
  std::size_t size() const { return streams_.size(); }

  void on_wants_to_send(Stream& stream) noexcept override;
  const std::string& description() const override { return description_; }
  std::unique_ptr<ClaimedLane> claim_lane() override;
  std::shared_ptr<std::byte[]> take_copy() override { return copies_->take(); }
  std::shared_ptr<Budget> budget() override { return budget_; }
  void on_granted(Stream& stream, const OwnedSlot& slot) override;

 private:
  struct Entry {
    std::shared_ptr<Stream> stream;
    bool is_ready = false;    // in ready_
    bool is_chunker = false;  // in chunkers_
  };
  bool is_own(ConnectionId id) const { return (static_cast<std::uint64_t>(id) & 1) == (dialled_ ? 1 : 0); }
  void add(ConnectionId id, const std::shared_ptr<Stream>& stream);
  Result<void> on_open(const Record& record);
  Result<void> on_record(const Record& record);
  Result<void> on_lane(const Record& record, Stream* stream);
  void on_bulk(ConnectionId id);
  void grant_to(Stream& stream);
  void fence(ConnectionId id, Stream& stream);
  bool asks_elsewhere(const std::shared_ptr<Stream>& stream);
  void forget_if_over(ConnectionId id);
  void say(const Record& record);

  Opens& opens_;
  std::function<void()> kick_;
  std::uint64_t next_id_;
  std::uint64_t newest_of_peer_ = 0;
  bool dialled_;
  bool is_elsewhere_ = false;
  bool is_lost_ = false, lanes_are_ready_ = false;
  std::shared_ptr<LanePool> lanes_;
  bool has_slots_ = false;
  std::shared_ptr<SlotMemory> slots_;
  std::array<ConnectionId, SlotMemory::kSlots> slot_users_{};
  const std::shared_ptr<Budget> budget_ = std::make_shared<Budget>(kMostOfMessages);
  const std::shared_ptr<CopyPool> copies_ = std::make_shared<CopyPool>();
  std::vector<std::span<std::byte>> granted_;
  std::deque<ConnectionId> askers_;  // the peer's streams that want slots
  Turns chunkers_;                   // ours that have something for the peer's slots
  // Of connections that are over, slots into which the peer may still write until it has heard of that.
  std::unordered_map<ConnectionId, std::deque<OwnedSlot>> fenced_;
  const std::string description_;
  std::unordered_map<ConnectionId, Entry> streams_;
  std::deque<Record> controls_;  // of beginnings; what follows in a stream comes later
  Turns ready_;                  // each once
};

}  // namespace rdmc::sockets

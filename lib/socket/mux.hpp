// All connections between the sockets of two processes, over their one trunk. The mux tells records apart by
// the connection that they name, and gives each stream that wants to send its turn in the next frame. A
// connection costs an entry here and no packets except its records. So there may be thousands of connections,
// and they begin and end as fast as frames are filled. A core without I/O. The caller must hold the sockets'
// lock.
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

/// The interface that knows which sockets listen in this process.
class Opens {
 public:
  virtual ~Opens() = default;
  /// `stream` is this side's end of the connection. Returns true if a socket listens at `asked.to`; then the
  /// peer waits until Mux::accept(). Returns false to refuse the connection.
  virtual bool on_open(const Asked& asked, const std::shared_ptr<Stream>& stream) = 0;
  /// The peer reports that no socket listens there, or the peer is lost. Returns true if `stream` will ask
  /// another process.
  virtual bool on_refused(const std::shared_ptr<Stream>&) { return false; }
};

class Mux final : public Outlet, public std::enable_shared_from_this<Mux> {
 public:
  /// The number of answers that may wait for a peer that asks for connections and does not read. One more
  /// request is a protocol error.
  static constexpr std::size_t kMostAnswers = 1 << 16;
  /// The memory quota of a peer: the bytes kept for all its messages that are longer than a window. A
  /// connection that exceeds the quota is reset.
  static constexpr std::size_t kMostOfMessages = 256 << 20;

  /// `dialled` is true on the side that has made the channel, and false on the other side. `description` is
  /// the human-readable name of what carries the frames.
  Mux(Opens& opens, bool dialled, std::string description = "self")
      : opens_(opens), next_id_(dialled ? 1 : 2), dialled_(dialled), description_(std::move(description)) {}
  ~Mux() override;
  Mux(const Mux&) = delete;
  Mux& operator=(const Mux&) = delete;

  /// The peer is on another host, so it cannot connect to listeners at this host's loopback addresses. Must
  /// be called before the first frame.
  void set_elsewhere() { is_elsewhere_ = true; }
  bool is_elsewhere() const { return is_elsewhere_; }

  /// `kick` is called when there is something to send, inside the call that has caused it.
  void on_kick(std::function<void()> kick) { kick_ = std::move(kick); }

  /// Asks the peer for a connection. Precondition: `stream` is connecting.
  void open(const std::shared_ptr<Stream>& stream, const Address& from, const Address& to);
  /// Accepts a connection for which on_open() has returned true.
  void accept(ConnectionId id);

  /// Handles the records of one frame, in order. Errors: protocol_error; then no more records of the peer can
  /// be understood.
  Result<void> on_frame(std::span<const std::byte> records);
  /// Fills `out` with records. It must have at least kMostControlBytes. Returns the number of bytes; 0 if
  /// there is nothing to send.
  std::size_t fill(std::span<std::byte> out);
  /// True if large messages of this side wait for slots.
  bool has_chunks() const { return !chunkers_.empty(); }
  bool has_something() const { return !controls_.empty() || !ready_.empty(); }

  // -- large messages: chunks.hpp; mux_chunks.cpp --

  /// True if a stream of the peer has asked for slots and this side has no memory for them yet.
  bool wants_slots() const { return !askers_.empty() && !has_slots_; }
  /// Null means that there will be no slots.
  void use_slots(std::shared_ptr<SlotMemory> slots);
  /// Returns the slots that were granted to the peer since the last call, in the order of the grants.
  std::vector<std::span<std::byte>> take_granted() { return std::exchange(granted_, {}); }
  /// The peer has written `bytes` bytes into a slot. Errors: protocol_error.
  Result<void> on_chunk(std::uint32_t slot, std::size_t bytes);
  /// Returns the next chunk to write, after everything that fill() has returned.
  std::optional<std::pair<std::shared_ptr<Stream>, ChunkWrite>> next_chunk();

  /// The peer is lost. Every connection ends with `error`, and nothing is sent any more.
  void lose(int error);
  bool is_lost() const { return is_lost_; }

  /// The memory for lanes that two processes on one host share. `ready`: the peer has mapped it already.
  void use_lanes(std::shared_ptr<LanePool> lanes, bool ready);
  /// The side that dialled makes the lanes.
  bool offers_lanes() const { return dialled_; }
  bool has_lanes() const { return lanes_ != nullptr; }
  /// The number of connections of which an end has still something to send or to receive.
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
    bool is_ready = false;    // it is in ready_
    bool is_chunker = false;  // it is in chunkers_
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
  Turns chunkers_;                   // this side's streams that have chunks for the peer's slots
  // The granted slots of connections that have ended here. The peer may write into them until it knows of the
  // end.
  std::unordered_map<ConnectionId, std::deque<OwnedSlot>> fenced_;
  const std::string description_;
  std::unordered_map<ConnectionId, Entry> streams_;
  // Records about the beginning of connections. Records of a stream come later, from Stream::next().
  std::deque<Record> controls_;
  Turns ready_;  // streams that want to send; each is in the queue once
};

}  // namespace rdmc::sockets

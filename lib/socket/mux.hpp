// All connections between the sockets of two processes, over the one trunk of these processes. The mux
// assigns each record to the connection that the record names. The streams that want to send fill the frames
// alternately. A connection costs an entry in the mux, and no packets except those of its records. So there
// may be thousands of connections. When a connection begins or ends, this costs only a little space in
// frames. A core without I/O. The caller must hold the sockets' lock.
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
  /// Called when a peer asks for a connection. `stream` is this side's end of it. Returns true if a socket
  /// listens at `asked.to`. Then the peer waits until Mux::accept(). Returns false to refuse the connection.
  virtual bool on_open(const Asked& asked, const std::shared_ptr<Stream>& stream) = 0;
  /// Called when the peer reports that no socket listens at the address, or when the peer is lost. Returns
  /// true if `stream` will ask another process for the connection.
  virtual bool on_refused(const std::shared_ptr<Stream>&) { return false; }
};

class Mux final : public Outlet, public std::enable_shared_from_this<Mux> {
 public:
  /// The most answers that may wait for a peer that asks for connections and does not read the answers. If
  /// the peer asks for one more, this is a protocol error.
  static constexpr std::size_t kMostAnswers = 1 << 16;
  /// The memory quota of a peer: the bytes kept for all its messages that are longer than a window. A
  /// connection that exceeds the quota is reset.
  static constexpr std::size_t kMostOfMessages = 256 << 20;

  /// `dialled` is true on the side that has opened the channel, and false on the other side. `description` is
  /// the human-readable name of the fabric that carries the frames.
  Mux(Opens& opens, bool dialled, std::string description = "self")
      : opens_(opens), next_id_(dialled ? 1 : 2), dialled_(dialled), description_(std::move(description)) {}
  ~Mux() override;
  Mux(const Mux&) = delete;
  Mux& operator=(const Mux&) = delete;

  /// Must be called, before the first frame, if the peer is on another host. Such a peer cannot connect to
  /// listeners at this host's loopback addresses.
  void set_elsewhere() { is_elsewhere_ = true; }
  bool is_elsewhere() const { return is_elsewhere_; }

  /// `kick` is called when there is something to send. It is called inside the function that has caused this.
  void on_kick(std::function<void()> kick) { kick_ = std::move(kick); }

  /// Asks the peer for a connection. Precondition: `stream` is connecting.
  void open(const std::shared_ptr<Stream>& stream, const Address& from, const Address& to);
  /// Accepts a connection for which on_open() has returned true.
  void accept(ConnectionId id);

  /// Handles the records of one frame, in order. Errors: protocol_error. After this error, no more records of
  /// the peer can be understood.
  Result<void> on_frame(std::span<const std::byte> records);
  /// Fills `out` with records. `out` must have at least kMostControlBytes. Returns the number of bytes, or 0
  /// if there is nothing to send.
  std::size_t fill(std::span<std::byte> out);
  /// True if large messages of this side wait for slots.
  bool has_chunks() const { return !chunkers_.empty(); }
  bool has_something() const { return !controls_.empty() || !ready_.empty(); }

  // -- large messages (see chunks.hpp); defined in mux_chunks.cpp --

  /// True if a stream of the peer has asked for slots and this side has no memory for them yet.
  bool wants_slots() const { return !askers_.empty() && !has_slots_; }
  /// Gives `slots` to the streams that wait for slots. Null means that there will be no slots.
  void use_slots(std::shared_ptr<SlotMemory> slots);
  /// Returns the slots that were granted to the peer since the last call, in the order of the grants.
  std::vector<Grant> take_granted() { return std::exchange(granted_, {}); }
  /// Must be called when the peer has written `bytes` bytes into a slot. Errors: protocol_error.
  Result<void> on_chunk(std::uint32_t slot, std::size_t bytes);
  /// Returns the next chunk to be written to the peer. It must be written after everything that fill() has
  /// returned.
  std::optional<std::pair<std::shared_ptr<Stream>, ChunkWrite>> next_chunk();

  /// Must be called when the peer is lost. Ends every connection with `error`. Nothing is sent any more.
  void lose(int error);
  bool is_lost() const { return is_lost_; }

  /// Uses `lanes`, the memory of lanes that two processes on one host share. `ready` is true if the peer has
  /// mapped this memory already.
  void use_lanes(std::shared_ptr<LanePool> lanes, bool ready);
  /// True on the side that makes the lanes, which is the side that dialled.
  bool offers_lanes() const { return dialled_; }
  bool has_lanes() const { return lanes_ != nullptr; }
  /// Returns the number of connections of which one end still has something to send or to receive.
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
    bool is_ready = false;    // true if the stream is in ready_
    bool is_chunker = false;  // true if the stream is in chunkers_
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
  std::vector<Grant> granted_;
  std::deque<ConnectionId> askers_;  // the peer's streams that want slots
  Turns chunkers_;                   // this side's streams that have chunks for the peer's slots
  // The granted slots of connections that have ended here. The peer may write into them until it knows of the
  // end.
  std::unordered_map<ConnectionId, std::deque<OwnedSlot>> fenced_;
  const std::string description_;
  std::unordered_map<ConnectionId, Entry> streams_;
  // Records about the beginning of connections. Later records of a stream come from Stream::next().
  std::deque<Record> controls_;
  Turns ready_;  // the streams that want to send; each stream is in the queue at most once
};

}  // namespace rdmc::sockets

// The connection of two processes, shared by all groups that both are members of: the queue pair, and a ring
// on each side into which the other writes frames of records. Blocks go straight into the groups' memory;
// both are WRITEs with immediate on one queue pair. A frame comes after all that was posted before it; a
// block may come earlier than frames that were posted before it. Owned by a Peers table, its thread.
#pragma once

#include <memory>
#include <vector>

#include "dataplane/fabric/queue_pair.hpp"
#include "dataplane/memory/arena.hpp"
#include "lib/group/frame_ring.hpp"
#include "lib/group/records.hpp"

namespace rdmc::group {

struct LinkOptions {
  /// `send_depth` counts the blocks' writes; frames have room of their own beside them.
  fabric::QueuePairOptions queue_pair{};
  /// Of the ring that the peer writes into, and most of the one that we write into. kLeastRingBytes …
  /// kMostRingBytes, a multiple of kFrameAlign.
  std::uint32_t ring_bytes = 16 * 1024;
  /// Of this process, for peers to know who shares a host; 0: they are not told.
  std::uint64_t host = 0;
};

class Link {
 public:
  /// Receives posted at any time, of no bytes: only WRITEs consume them. Every one is posted again as soon as
  /// its completion has been seen, so a peer that keeps to its grants never meets an empty queue.
  static constexpr std::uint32_t kReceives = 512;
  /// Frames under way at most; 16 KB each, so that a block that is posted behind one waits for little.
  static constexpr std::uint32_t kMostFrames = 64, kMostFrameBytes = 16 * 1024;
  /// With so many under way a frame of small messages waits until it is full, or one of them has arrived.
  static constexpr std::uint32_t kFramesAhead = 2;
  /// A frame begins with how far its sender has read.
  static constexpr std::uint32_t kFrameHeadBytes = 8;
  /// The upper half of a frame's immediate; no grant has this slot id. The lower half is its offset in the
  /// ring, in kFrameAligns.
  static constexpr std::uint16_t kFrameSlot = 0xFFFF;

  /// Errors: invalid_argument, resource_limit.
  static Result<std::unique_ptr<Link>> create(fabric::Fabric& fabric, PeerId peer,
                                              const LinkOptions& options);
  ~Link() { shut(); }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  PeerId peer() const { return peer_; }
  /// The peer's, when it is connected: 0 if it does not tell.
  std::uint64_t peer_host() const { return peer_host_; }
  /// For the peer: our ring and host, then the queue pair's own blob.
  fabric::ConnectionBlob local_blob() const;
  /// Errors: protocol_error (not such a blob), invalid_argument (connected), those of QueuePair::connect.
  Result<void> connect(std::span<const std::byte> blob);
  /// From its return on the peer reads and writes nothing here, and nothing is sent.
  void shut() { queue_pair_.reset(); }

  /// Memory that both processes write: QueuePair::share_pages.
  bool can_share_pages() const { return is_open() && queue_pair_->can_share_pages(); }
  bool share_pages(const memory::SharedPages& pages) { return is_open() && queue_pair_->share_pages(pages); }
  std::optional<memory::SharedPages> take_shared_pages() {
    return is_open() ? queue_pair_->take_shared_pages() : std::nullopt;
  }
  std::shared_ptr<const fabric::PeerMemory> peer_memory() const {
    return is_open() ? queue_pair_->peer_memory() : nullptr;
  }

  bool is_open() const { return queue_pair_ != nullptr; }
  bool is_connected() const { return is_open() && queue_pair_->state() == fabric::QueuePairState::ready; }
  bool has_failed() const { return is_open() && queue_pair_->state() == fabric::QueuePairState::error; }
  std::string error_cause() const { return is_open() ? queue_pair_->error_cause() : "closed here"; }
  std::size_t poll(std::span<fabric::Completion> out) {
    return is_open() ? queue_pair_->poll_completions(out) : 0;
  }
  std::optional<fabric::MappingOffer> offer_mapping(std::span<const std::byte> bytes) {
    return is_open() ? queue_pair_->offer_mapping(bytes) : std::nullopt;
  }
  Result<fabric::MappedMemory> map(const fabric::MappingOffer& offer, std::uint64_t bytes) {
    if (!is_open()) return fail(Errc::peer_failed, error_cause());
    return queue_pair_->map(offer, bytes);
  }
  bool redirect_write(RemoteKey key, std::span<std::byte> where) {
    return is_open() && queue_pair_->redirect_write(key, where);
  }
  void expect_write(std::span<std::byte> where) {
    if (is_open()) queue_pair_->expect_write(where);
  }

  /// Room for records of `bytes` bytes in all, of one group. False: not now, try again after progress.
  bool make_room(std::size_t bytes);
  /// Adds a record to the frame that leaves with the next flush() or write(). False: no room.
  bool send(const GroupName& name, const Record& record);
  /// For records that are no group's: the rest of the open frame, at least `least` bytes; empty: not now …
  std::span<std::byte> room(std::size_t least);
  /// … of which so many bytes have been filled, whole records.
  void fill(std::size_t bytes);
  /// Sends the open frame, and one without records when the peer is owed credit or `always`.
  Result<void> flush(bool always = false);
  /// The same at the end of a turn, but a frame of nothing but small messages waits for more of them while
  /// kFramesAhead others are under way: a stream fills frames, and what is alone leaves at once.
  Result<void> flush_when_due(bool always);
  /// Flushes, then posts a block's write.
  bool can_write() const { return is_open() && writes_ < most_writes_; }
  Result<void> write(const fabric::WriteRequest& request);

  /// What a work id of this link stands for.
  enum class Work : std::uint8_t { block_write, frame, receive };
  static Work kind_of(std::uint64_t work_id) { return static_cast<Work>(work_id >> 60); }
  /// A block's write: groups count modulo 2^10, messages too, blocks are below 2^40.
  static std::uint64_t block_write_id(std::uint32_t group, std::uint64_t message, std::uint64_t block);
  static std::uint32_t group_of(std::uint64_t work_id) {
    return static_cast<std::uint32_t>(work_id >> 50) & 0x3FF;
  }
  static constexpr std::uint64_t kMessageMask = 0x3FF;
  static std::uint64_t message_of(std::uint64_t work_id) { return work_id >> 40 & kMessageMask; }
  static std::uint64_t block_of(std::uint64_t work_id) { return work_id & ((std::uint64_t{1} << 40) - 1); }

  void write_done() { --writes_; }
  void frame_done() { writer_->on_written(); }
  /// The records of a frame that has arrived; read them before the next poll(). Errors: protocol_error.
  Result<std::span<const std::byte>> frame(const fabric::Completion& completion);
  Result<void> repost(std::uint64_t work_id);
  /// Frames that were sent, ever.
  std::uint64_t frames_sent() const { return frames_sent_; }
  /// All that was sent has arrived.
  bool is_quiet() const {
    return !is_connected() || (used_ == 0 && writes_ == 0 && writer_->frames_under_way() == 0);
  }

 private:
  explicit Link(PeerId peer) : peer_(peer) {}
  bool open_frame(std::size_t least, bool urgent);

  PeerId peer_;
  std::uint32_t ring_bytes_ = 0;  // of ours, as the peer sees it
  std::uint64_t host_ = 0, peer_host_ = 0;
  memory::Arena in_, out_;  // out_ mirrors the peer's ring; both outlive the queue pair
  std::unique_ptr<fabric::MemoryRegion> in_region_, out_region_;  // out_'s only where a device must know it
  std::uint64_t remote_address_ = 0;
  RemoteKey remote_key_{};
  std::optional<FrameWriter> writer_;
  std::optional<FrameReader> reader_;
  FrameWriter::Room room_{};  // of the open frame
  std::uint32_t used_ = 0;    // of it; 0: no frame is open
  bool only_smalls_ = false;  // in it
  std::optional<GroupName> frame_group_;
  std::uint32_t writes_ = 0, most_writes_ = 0;  ///< blocks' posted and not completed, and at most
  std::uint64_t frames_sent_ = 0;
  std::unique_ptr<fabric::QueuePair> queue_pair_;
};

}  // namespace rdmc::group

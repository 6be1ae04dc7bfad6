// The connection of two processes, which all their common groups share. It has one queue pair and, on each
// side, a ring buffer into which the peer writes frames of records. Blocks are written straight into the
// messages' memory. Frames and blocks are WRITEs with immediate on the same queue pair. A frame arrives after
// everything that was posted before it. A block may arrive before frames that were posted before it. A Link
// belongs to a Peers table and is used on its thread.
#pragma once

#include <memory>
#include <vector>

#include "dataplane/fabric/local_peer.hpp"
#include "dataplane/fabric/queue_pair.hpp"
#include "dataplane/memory/arena.hpp"
#include "lib/group/frame_ring.hpp"
#include "lib/group/records.hpp"

namespace rdmc::group {

struct LinkOptions {
  /// `send_depth` counts only the writes of blocks. Frames have additional space.
  fabric::QueuePairOptions queue_pair{};
  /// The size of the ring that the peer writes into: kLeastRingBytes to kMostRingBytes, a multiple of
  /// kFrameAlign. Both sides use only the smaller one of their two sizes.
  std::uint32_t ring_bytes = 16 * 1024;
  /// The host id of this process. Peers with the same host id share this host. 0 means that this process does
  /// not send its host id to peers.
  std::uint64_t host = 0;
};

class Link {
 public:
  /// The number of receives that are always posted. They have no bytes, because only WRITEs consume them.
  /// Each one is posted again as soon as its completion has been seen. So a peer that keeps to its grants
  /// never finds an empty receive queue.
  static constexpr std::uint32_t kReceives = 512;
  /// The limits for the frames in flight and for the size of a frame. A frame is at most 16 KB long, so that
  /// a block that is posted after a frame waits only for a short time.
  static constexpr std::uint32_t kMostFrames = 64, kMostFrameBytes = 16 * 1024;
  /// While this number of frames is in flight, a frame of small messages waits until it is full, or until one
  /// of the frames in flight has been acknowledged.
  static constexpr std::uint32_t kFramesAhead = 2;
  /// The length of the number at the beginning of a frame. This number is the position up to which the
  /// frame's sender has read the frames that it has received.
  static constexpr std::uint32_t kFrameHeadBytes = 8;
  /// The upper half of a frame's immediate. No grant has this message id. The lower half is the frame's
  /// offset in the ring, in units of kFrameAlign.
  static constexpr std::uint16_t kFrameSlot = 0xFFFF;

  /// Errors: invalid_argument if the ring size or the send depth is impossible, resource_limit.
  static Result<std::unique_ptr<Link>> create(fabric::Fabric& fabric, PeerId peer,
                                              const LinkOptions& options);
  ~Link() { shut(); }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  PeerId peer() const { return peer_; }
  /// The host id of the peer, once it is connected. 0 if the peer does not send its host id.
  std::uint64_t peer_host() const { return peer_host_; }
  /// The bytes that the peer needs to connect: the local ring and host id, then the queue pair's own blob.
  fabric::ConnectionBlob local_blob() const;
  /// Errors: protocol_error if the blob is malformed, version_mismatch if it has another version,
  /// invalid_argument if the link is connected or closed, those of QueuePair::connect.
  Result<void> connect(std::span<const std::byte> blob);
  /// Closes the link. After this function has returned, the peer neither reads nor writes any memory here,
  /// and nothing more is sent.
  void shut() { queue_pair_.reset(); }

  bool is_open() const { return queue_pair_ != nullptr; }
  bool is_connected() const { return is_open() && queue_pair_->state() == fabric::QueuePairState::ready; }
  bool has_failed() const { return is_open() && queue_pair_->state() == fabric::QueuePairState::error; }
  std::string error_cause() const { return is_open() ? queue_pair_->error_cause() : "closed here"; }
  std::size_t poll(std::span<fabric::Completion> out) {
    return is_open() ? queue_pair_->poll_completions(out) : 0;
  }
  /// Returns QueuePair::local_peer(), or null if the link is closed.
  fabric::LocalPeer* local_peer() noexcept { return is_open() ? queue_pair_->local_peer() : nullptr; }
  void expect_write(RemoteKey key, std::uint64_t remote_address, std::uint32_t bytes) {
    if (is_open()) queue_pair_->expect_write(key, remote_address, bytes);
  }

  /// Makes space in the open frame for records of one group. Their total size is `bytes` bytes. Returns false
  /// if there is no space now. The caller can try again later.
  bool make_room(std::size_t bytes);
  /// Adds a record to the open frame, which the next flush() or write() sends. Returns false if there is no
  /// space.
  bool send(const GroupName& name, const Record& record);
  /// For records that belong to no group: returns the unused part of the open frame, at least `least` bytes.
  /// Returns an empty span if there is no space now.
  std::span<std::byte> room(std::size_t least);
  /// Adds the first `bytes` bytes of what room() has returned to the open frame. They must be whole records.
  void fill(std::size_t bytes);
  /// Sends the open frame. If no frame is open, sends a frame without records, but only if a report of credit
  /// is due or `always` is set.
  Result<void> flush(bool always = false);
  /// Called at the end of a turn. Does the same as flush(), with one exception: a frame with nothing but
  /// small messages waits for more small messages while kFramesAhead other frames are in flight. So a stream
  /// of small messages fills its frames, and a single small message is sent at once.
  Result<void> flush_when_due(bool always);
  /// True if the write of a block can be posted now.
  bool can_write() const { return is_open() && writes_ < most_writes_; }
  /// Flushes, then posts the write of a block. Precondition: can_write().
  Result<void> write(const fabric::WriteRequest& request);

  /// The kind of work that a work id of this link names.
  enum class Work : std::uint8_t { block_write, frame, receive };
  static Work kind_of(std::uint64_t work_id) { return static_cast<Work>(work_id >> 60); }
  /// Returns the work id of a block's write. The group and the message are stored modulo 2^10. The block must
  /// be below 2^40.
  static std::uint64_t block_write_id(std::uint32_t group, std::uint64_t message, std::uint64_t block);
  static std::uint32_t group_of(std::uint64_t work_id) {
    return static_cast<std::uint32_t>(work_id >> 50) & 0x3FF;
  }
  static constexpr std::uint64_t kMessageMask = 0x3FF;
  static std::uint64_t message_of(std::uint64_t work_id) { return work_id >> 40 & kMessageMask; }
  static std::uint64_t block_of(std::uint64_t work_id) { return work_id & ((std::uint64_t{1} << 40) - 1); }

  void write_done() { --writes_; }
  void frame_done() { writer_->on_written(); }
  /// Returns the records of a frame that has arrived. They must be read before the next poll(). Errors:
  /// protocol_error.
  Result<std::span<const std::byte>> frame(const fabric::Completion& completion);
  Result<void> repost(std::uint64_t work_id);
  /// The number of frames that were ever sent.
  std::uint64_t frames_sent() const { return frames_sent_; }
  /// True if everything that was sent has arrived, or if the link is not connected.
  bool is_quiet() const {
    return !is_connected() || (used_ == 0 && writes_ == 0 && writer_->frames_in_flight() == 0);
  }

 private:
  explicit Link(PeerId peer) : peer_(peer) {}
  bool open_frame(std::size_t least, bool urgent);

  PeerId peer_;
  std::uint32_t ring_bytes_ = 0;  // The size of the local ring. The blob contains it.
  std::uint64_t host_ = 0, peer_host_ = 0;
  // `in_` is the ring that the peer writes. `out_` mirrors the ring of the peer. Both outlive the queue pair.
  memory::Arena in_, out_;
  // `out_region_` exists only if the fabric pins memory.
  std::unique_ptr<fabric::MemoryRegion> in_region_, out_region_;
  std::uint64_t remote_address_ = 0;
  RemoteKey remote_key_{};
  std::optional<FrameWriter> writer_;
  std::optional<FrameReader> reader_;
  FrameWriter::Room room_{};  // The space of the open frame.
  std::uint32_t used_ = 0;    // The used bytes of room_; 0 if no frame is open.
  bool only_smalls_ = false;  // The open frame has nothing but small messages.
  std::optional<GroupName> frame_group_;
  /// The block writes that are posted and not completed, and their maximum.
  std::uint32_t writes_ = 0, most_writes_ = 0;
  std::uint64_t frames_sent_ = 0;
  std::unique_ptr<fabric::QueuePair> queue_pair_;
};

}  // namespace rdmc::group

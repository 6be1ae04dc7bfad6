// A connection of two processes for records and payload. It has one queue pair and, on each side, a ring
// buffer into which the peer writes frames of records. Payload is written straight into the memory where it
// belongs. Frames and payload are WRITEs with immediate on the same queue pair. A frame arrives after
// everything that was posted before it. Payload whose WRITE is unordered may arrive before frames that were
// posted before it. What the records mean is the business of the user of the link. Used on the fabric thread.
#pragma once

#include <memory>
#include <vector>

#include "dataplane/fabric/frame_ring.hpp"
#include "dataplane/fabric/local_peer.hpp"
#include "dataplane/fabric/queue_pair.hpp"
#include "dataplane/memory/arena.hpp"

namespace rdmc::fabric {

struct FrameLinkOptions {
  /// `send_depth` counts only the writes of payload. Frames have additional space.
  QueuePairOptions queue_pair{};
  /// The size of the ring that the peer writes into: kLeastRingBytes to kMostRingBytes, a multiple of
  /// kFrameAlign. Both sides use only the smaller one of their two sizes.
  std::uint32_t ring_bytes = 16 * 1024;
  /// The host id of this process. Peers with the same host id share this host. 0 means that this process does
  /// not send its host id to peers.
  std::uint64_t host = 0;
};

class FrameLink {
 public:
  /// The number of receives that are always posted. They have no bytes, because only WRITEs consume them.
  /// Each one is posted again as soon as its completion has been seen. So a peer that keeps to its grants
  /// never finds an empty receive queue.
  static constexpr std::uint32_t kReceives = 512;
  /// The limits for the frames in flight and for the size of a frame. A frame is at most 16 KB long, so that
  /// payload that is posted after a frame waits only for a short time.
  static constexpr std::uint32_t kMostFrames = 64, kMostFrameBytes = 16 * 1024;
  /// While this number of frames is in flight, a frame that may wait is sent when it is full, or when one of
  /// the frames in flight has been acknowledged.
  static constexpr std::uint32_t kFramesAhead = 2;
  /// The length of the number at the beginning of a frame. This number is the position up to which the
  /// frame's sender has read the frames that it has received.
  static constexpr std::uint32_t kFrameHeadBytes = 8;
  /// The upper half of a frame's immediate. The immediate of payload must have another upper half. The lower
  /// half is the frame's offset in the ring, in units of kFrameAlign.
  static constexpr std::uint16_t kFrameSlot = 0xFFFF;

  /// Errors: invalid_argument if the ring size or the send depth is impossible, resource_limit.
  static Result<std::unique_ptr<FrameLink>> create(Fabric& fabric, const FrameLinkOptions& options);
  ~FrameLink() { shut(); }
  FrameLink(const FrameLink&) = delete;
  FrameLink& operator=(const FrameLink&) = delete;

  /// The host id of the peer, once it is connected. 0 if the peer does not send its host id.
  std::uint64_t peer_host() const { return peer_host_; }
  /// The bytes that the peer needs to connect: the local ring and host id, then the queue pair's own blob.
  ConnectionBlob local_blob() const;
  /// Errors: protocol_error if the blob is malformed, version_mismatch if it has another version,
  /// invalid_argument if the link is connected or closed, those of QueuePair::connect.
  Result<void> connect(std::span<const std::byte> blob);
  /// Closes the link. After this function has returned, the peer neither reads nor writes any memory here,
  /// and nothing more is sent.
  void shut() { queue_pair_.reset(); }

  bool is_open() const { return queue_pair_ != nullptr; }
  bool is_connected() const { return is_open() && queue_pair_->state() == QueuePairState::ready; }
  bool has_failed() const { return is_open() && queue_pair_->state() == QueuePairState::error; }
  std::string error_cause() const { return is_open() ? queue_pair_->error_cause() : "closed here"; }
  std::size_t poll(std::span<Completion> out) { return is_open() ? queue_pair_->poll_completions(out) : 0; }
  /// Returns QueuePair::local_peer(), or null if the link is closed.
  LocalPeer* local_peer() noexcept { return is_open() ? queue_pair_->local_peer() : nullptr; }
  void expect_write(RemoteKey key, std::uint64_t remote_address, std::uint32_t bytes) {
    if (is_open()) queue_pair_->expect_write(key, remote_address, bytes);
  }

  /// Registers memory that only the peer may access, if the provider can tie a key to a queue pair. Otherwise
  /// the key is valid on all queue pairs of the fabric. Errors: those of Fabric::register_memory; peer_failed
  /// if the link is closed.
  Result<std::unique_ptr<MemoryRegion>> register_memory(std::span<std::byte> memory, RemoteAccess access);

  /// Makes space for `bytes` bytes of records in the open frame. Opens another frame if that is necessary.
  /// Returns false if there is no space now. The caller can try again later.
  bool make_room(std::size_t bytes);
  /// Returns the unused part of the open frame. Empty if no frame is open.
  std::span<std::byte> rest() {
    if (used_ == 0) return {};
    return out_.bytes().subspan(room_.offset + used_, room_.bytes - used_);
  }
  /// Makes space as make_room() does, and returns the unused part of the open frame. Returns an empty span if
  /// there is no space now.
  std::span<std::byte> room(std::size_t least) { return make_room(least) ? rest() : std::span<std::byte>{}; }
  /// Adds the first `bytes` bytes of rest() to the open frame. They must be whole records. The next flush()
  /// or write() sends them. If `may_wait` is set for all records of a frame, flush_when_due() may hold it
  /// back.
  void fill(std::size_t bytes, bool may_wait = false);
  /// The number of frames that were opened so far. The open frame, if there is one, has this number.
  std::uint64_t frames_opened() const { return frames_opened_; }
  /// Sends the open frame. If no frame is open, sends a frame without records, but only if a report of credit
  /// is due or `always` is set.
  Result<void> flush(bool always = false);
  /// Called at the end of a turn. Does the same as flush(), with one exception: a frame whose records may
  /// wait is held back while kFramesAhead other frames are in flight. So a stream of small messages fills its
  /// frames, and a single small message is sent at once.
  Result<void> flush_when_due(bool always);
  /// True if a write of payload can be posted now.
  bool can_write() const { return is_open() && writes_ < most_writes_; }
  /// Flushes, then posts a write of payload. Precondition: can_write().
  Result<void> write(const WriteRequest& request);

  /// The kind of work that a work id of this link names. The caller chooses the work ids of its writes: they
  /// must be below kWriteIdEnd.
  enum class Work : std::uint8_t { write, frame, receive };
  static Work kind_of(std::uint64_t work_id) { return static_cast<Work>(work_id >> 60); }
  static constexpr std::uint64_t kWriteIdEnd = std::uint64_t{1} << 60;

  void write_done() { --writes_; }
  void frame_done() { writer_->on_written(); }
  /// Returns the records of a frame that has arrived. They must be read before the next poll(). Errors:
  /// protocol_error.
  Result<std::span<const std::byte>> frame(const Completion& completion);
  Result<void> repost(std::uint64_t work_id);
  /// The number of frames that were ever sent.
  std::uint64_t frames_sent() const { return frames_sent_; }
  /// True if everything that was sent has arrived, or if the link is not connected.
  bool is_quiet() const {
    return !is_connected() || (used_ == 0 && writes_ == 0 && writer_->frames_in_flight() == 0);
  }

 protected:
  FrameLink() = default;
  /// Does the work of create().
  Result<void> open(Fabric& fabric, const FrameLinkOptions& options);

 private:
  bool open_frame(std::size_t least, bool urgent);

  Fabric* fabric_ = nullptr;
  std::uint32_t ring_bytes_ = 0;  // The size of the local ring. The blob contains it.
  std::uint64_t host_ = 0, peer_host_ = 0;
  // `in_` is the ring that the peer writes. `out_` mirrors the ring of the peer. Both outlive the queue pair.
  memory::Arena in_, out_;
  // `out_region_` exists only if the fabric pins memory.
  std::unique_ptr<MemoryRegion> in_region_, out_region_;
  std::uint64_t remote_address_ = 0;
  RemoteKey remote_key_{};
  std::optional<FrameWriter> writer_;
  std::optional<FrameReader> reader_;
  FrameWriter::Room room_{};  // The space of the open frame.
  std::uint32_t used_ = 0;    // The used bytes of room_; 0 if no frame is open.
  bool may_wait_ = false;     // All records of the open frame may wait.
  /// The writes of payload that are posted and not completed, and their maximum.
  std::uint32_t writes_ = 0, most_writes_ = 0;
  std::uint64_t frames_opened_ = 0, frames_sent_ = 0;
  std::unique_ptr<QueuePair> queue_pair_;
};

}  // namespace rdmc::fabric

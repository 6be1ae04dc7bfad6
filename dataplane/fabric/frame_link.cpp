#include "dataplane/fabric/frame_link.hpp"

#include <algorithm>
#include <cassert>

#include "dataplane/base/bytes.hpp"

namespace rdmc::fabric {
namespace {

// The length of the part of the blob before the queue pair's own blob. The fields of this part, with their
// lengths in bytes, are: version (1), zeros (3), ring size (4), address (8), host id (8), key (4). The
// version is 6. It also increases when the records or the order of blocks change.
constexpr std::size_t kBlobBytes = 28;
constexpr std::byte kBlobVersion{6};

std::uint64_t id_of(FrameLink::Work kind, std::uint64_t rest) {
  return static_cast<std::uint64_t>(kind) << 60 | rest;
}

bool is_ring_size(std::uint32_t bytes) {
  return bytes >= kLeastRingBytes && bytes <= kMostRingBytes && bytes % kFrameAlign == 0;
}

}  // namespace

Result<std::unique_ptr<FrameLink>> FrameLink::create(Fabric& fabric, const FrameLinkOptions& options) {
  std::unique_ptr<FrameLink> link(new FrameLink);
  if (auto opened = link->open(fabric, options); !opened) return std::unexpected(opened.error());
  return link;
}

Result<void> FrameLink::open(Fabric& fabric, const FrameLinkOptions& wanted) {
  auto options = wanted.queue_pair;
  if (!is_ring_size(wanted.ring_bytes)) return fail(Errc::invalid_argument, "a ring of an impossible size");
  if (options.send_depth == 0) return fail(Errc::invalid_argument, "a queue pair that can send nothing");
  fabric_ = &fabric;
  ring_bytes_ = wanted.ring_bytes;
  host_ = wanted.host;
  for (memory::Arena* arena : {&in_, &out_}) {
    auto made = fabric.make_arena(wanted.ring_bytes, memory::Touch::when_used);
    if (!made) return std::unexpected(made.error());
    *arena = std::move(*made);
  }
  auto region = fabric.register_memory(in_.bytes().first(wanted.ring_bytes));
  if (!region) return std::unexpected(region.error());
  in_region_ = std::move(*region);
  if (fabric.info().pins_memory) {
    auto pinned = fabric.register_memory(out_.bytes(), MemoryUse::general, RemoteAccess::none);
    if (!pinned) return std::unexpected(pinned.error());
    out_region_ = std::move(*pinned);
  }
  most_writes_ = options.send_depth;
  options.send_depth += kMostFrames;
  options.receive_depth = kReceives;
  options.largest_receive = 1;  // Peers use no SEND.
  auto queue_pair = fabric.create_queue_pair(options);
  if (!queue_pair) return std::unexpected(queue_pair.error());
  queue_pair_ = std::move(*queue_pair);
  for (std::uint32_t i = 0; i < kReceives; ++i) {
    if (auto posted = repost(id_of(Work::receive, i)); !posted) return posted;
  }
  return {};
}

ConnectionBlob FrameLink::local_blob() const {
  ConnectionBlob blob(kBlobBytes);
  blob[0] = kBlobVersion;
  store_be(&blob[4], ring_bytes_);
  store_be(&blob[8], in_region_->remote_address());
  store_be(&blob[16], host_);
  store_be(&blob[24], value_of(in_region_->remote_key()));
  const auto inner = queue_pair_->local_blob();
  blob.insert(blob.end(), inner.begin(), inner.end());
  return blob;
}

Result<void> FrameLink::connect(std::span<const std::byte> blob) {
  if (!is_open() || writer_) return fail(Errc::invalid_argument, "connected already, or closed");
  if (blob.size() < kBlobBytes) return fail(Errc::protocol_error, "a connection blob that is cut off");
  if (blob[0] != kBlobVersion) {
    return fail(Errc::version_mismatch, "a connection blob of version " +
                                            std::to_string(std::to_integer<int>(blob[0])) + ", ours is " +
                                            std::to_string(std::to_integer<int>(kBlobVersion)));
  }
  const auto theirs = load_be<std::uint32_t>(&blob[4]);
  if (!is_ring_size(theirs)) return fail(Errc::protocol_error, "a connection blob with an impossible ring");
  if (auto connected = queue_pair_->connect(blob.subspan(kBlobBytes)); !connected) return connected;
  remote_address_ = load_be<std::uint64_t>(&blob[8]);
  peer_host_ = load_be<std::uint64_t>(&blob[16]);
  remote_key_ = RemoteKey{load_be<std::uint32_t>(&blob[24])};
  const std::uint32_t ring = std::min(theirs, ring_bytes_);  // Both sides use this size of their rings.
  writer_.emplace(ring, kMostFrames);
  reader_.emplace(ring);
  return {};
}

bool FrameLink::open_frame(std::size_t least, bool urgent) {
  const auto room =
      writer_->room(static_cast<std::uint32_t>(kFrameHeadBytes + least), kMostFrameBytes, urgent);
  if (!room) return false;
  room_ = *room;
  used_ = kFrameHeadBytes;
  ++frames_opened_;
  may_wait_ = true;
  return true;
}

Result<std::unique_ptr<MemoryRegion>> FrameLink::register_memory(std::span<std::byte> memory,
                                                                 RemoteAccess access) {
  if (!is_open()) return fail(Errc::peer_failed, "the link is closed");
  auto region = queue_pair_->register_memory(memory, access);
  if (region || region.error().code != Errc::unsupported) return region;
  return fabric_->register_memory(memory, MemoryUse::general, access);
}

bool FrameLink::make_room(std::size_t bytes) {
  if (!is_connected()) return false;
  if (used_ != 0 && room_.bytes - used_ >= bytes) return true;
  return flush() && used_ == 0 && bytes <= kMostFrameBytes && open_frame(bytes, false);
}

void FrameLink::fill(std::size_t bytes, bool may_wait) {
  assert(bytes <= room_.bytes - used_);
  used_ += static_cast<std::uint32_t>(bytes);
  may_wait_ = may_wait_ && may_wait;
}

Result<void> FrameLink::flush_when_due(bool always) {
  const bool waits = used_ > kFrameHeadBytes && may_wait_ && !always && !reader_->owes_credit() &&
                     writer_->frames_in_flight() >= kFramesAhead;
  return waits ? Result<void>{} : flush(always);
}

Result<void> FrameLink::flush(bool always) {
  if (!writer_ || !is_open()) return {};
  const bool head_is_due = always || reader_->owes_credit();
  if (used_ == kFrameHeadBytes && !head_is_due) used_ = 0;  // No record was added to the frame.
  if (used_ == 0 && head_is_due) open_frame(0, true);
  if (used_ == 0) return {};
  const auto bytes = out_.bytes().subspan(room_.offset, used_);
  store_be(bytes.data(), reader_->consumed());
  auto posted =
      queue_pair_->post_write({.work_id = id_of(Work::frame, 0),
                               .bytes = bytes,
                               .remote_address = remote_address_ + room_.offset,
                               .remote_key = remote_key_,
                               .immediate = std::uint32_t{kFrameSlot} << 16 | room_.offset / kFrameAlign});
  if (!posted) return posted;
  reader_->told();
  writer_->wrote(room_, used_);
  used_ = 0;
  ++frames_sent_;
  return {};
}

Result<void> FrameLink::write(const WriteRequest& request) {
  assert(can_write());
  if (used_ != 0) {  // The open frame may have a record about this payload.
    if (auto flushed = flush(); !flushed) return flushed;
  }
  auto posted = queue_pair_->post_write(request);
  if (posted) ++writes_;
  return posted;
}

Result<std::span<const std::byte>> FrameLink::frame(const Completion& completion) {
  const std::uint32_t offset = (completion.immediate.value_or(0) & 0xFFFF) * kFrameAlign;
  if (auto placed = reader_->on_frame(offset, completion.byte_count); !placed)
    return std::unexpected(placed.error());
  const auto bytes = std::as_const(in_).bytes().subspan(offset, completion.byte_count);
  if (bytes.size() < kFrameHeadBytes) return fail(Errc::protocol_error, "a frame that is cut off");
  if (auto told = writer_->on_consumed(load_be<std::uint64_t>(bytes.data())); !told)
    return std::unexpected(told.error());
  return bytes.subspan(kFrameHeadBytes);
}

Result<void> FrameLink::repost(std::uint64_t work_id) {
  if (!is_open()) return {};
  return queue_pair_->post_receive({.work_id = work_id, .bytes = {}});
}

}  // namespace rdmc::fabric

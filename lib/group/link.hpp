// A member's connection to one neighbour: the queue pair, the receives that are always posted on it, and
// buffers for the few control frames that are on their way. Owned and used by a Group on its engine thread.
#pragma once

#include <memory>
#include <vector>

#include "dataplane/fabric/queue_pair.hpp"
#include "dataplane/memory/arena.hpp"
#include "lib/group/control_frame.hpp"

namespace rdmc::group {

class Link {
 public:
  /// Receives posted at any time; every one is posted again as soon as its completion has been seen, so a
  /// peer that keeps to its grants never meets an empty queue.
  static constexpr std::uint32_t kReceives = 512;
  static constexpr std::uint32_t kControlSends = 64;

  /// `options.send_depth` counts the blocks' writes; control frames have room of their own beside them.
  /// Errors: invalid_argument, resource_limit.
  static Result<std::unique_ptr<Link>> create(fabric::Fabric& fabric, Rank peer,
                                              fabric::QueuePairOptions options);

  Rank peer() const { return peer_; }
  fabric::QueuePair& queue_pair() { return *queue_pair_; }
  const fabric::QueuePair& queue_pair() const { return *queue_pair_; }
  Result<void> connect(std::span<const std::byte> blob) { return queue_pair_->connect(blob); }

  bool is_connected() const { return queue_pair_->state() != fabric::QueuePairState::reset; }
  bool can_send_control() const { return !free_sends_.empty(); }
  Result<void> send_control(const ControlFrame& frame);
  bool can_write() const { return writes_ < most_writes_; }
  Result<void> write(const fabric::WriteRequest& request);

  /// What a work id of this link stands for.
  enum class Work : std::uint8_t { block_write, control_send, receive };
  static Work kind_of(std::uint64_t work_id) { return static_cast<Work>(work_id >> 56); }
  /// A block's write: `message` counts modulo 2^16, blocks are below 2^40.
  static std::uint64_t block_write_id(std::uint64_t message, std::uint64_t block);
  static std::uint16_t message_of(std::uint64_t work_id) { return static_cast<std::uint16_t>(work_id >> 40); }
  static std::uint64_t block_of(std::uint64_t work_id) { return work_id & ((std::uint64_t{1} << 40) - 1); }

  void write_done() { --writes_; }
  void control_send_done(std::uint64_t work_id) {
    free_sends_.push_back(static_cast<std::uint32_t>(work_id));
  }
  /// The bytes that a SEND left in a receive; read them before repost.
  std::span<const std::byte> received(const fabric::Completion& completion) const;
  Result<void> repost(std::uint64_t work_id);

 private:
  explicit Link(Rank peer) : peer_(peer) {}
  std::span<std::byte, kControlFrameBytes> buffer(std::uint32_t index) const;
  Result<void> post_receive(std::uint32_t index);

  Rank peer_;
  memory::Arena buffers_;  // receives first, then control sends; outlives the queue pair
  std::unique_ptr<fabric::MemoryRegion> region_;  // of the buffers, where a device must know them
  std::vector<std::uint32_t> free_sends_;
  std::uint32_t writes_ = 0, most_writes_ = 0;  ///< posted and not completed, and at most
  std::unique_ptr<fabric::QueuePair> queue_pair_;
};

}  // namespace rdmc::group

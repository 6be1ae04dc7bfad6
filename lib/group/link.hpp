// The connection of two processes, which all their common groups share. The records of the groups travel in
// the frames of a FrameLink. Each frame names the group that its records belong to. Blocks are written
// straight into the messages' memory. A block may arrive before frames that were posted before it. A Link
// belongs to a Peers table and is used on its thread.
#pragma once

#include <memory>

#include "dataplane/fabric/frame_link.hpp"
#include "lib/group/records.hpp"

namespace rdmc::group {

using LinkOptions = fabric::FrameLinkOptions;

class Link final : public fabric::FrameLink {
 public:
  /// Errors: those of FrameLink::create.
  static Result<std::unique_ptr<Link>> create(fabric::Fabric& fabric, PeerId peer,
                                              const LinkOptions& options);

  PeerId peer() const { return peer_; }

  /// Makes space in the open frame for records of one group. Their total size is `bytes` bytes. Returns false
  /// if there is no space now. The caller can try again later.
  bool make_room(std::size_t bytes);
  /// Adds a record to the open frame, which the next flush() or write() sends. A small message may wait.
  /// Returns false if there is no space.
  bool send(const GroupName& name, const Record& record);

  /// Returns the work id of a block's write. The group and the message are stored modulo 2^10. The block must
  /// be below 2^40.
  static std::uint64_t block_write_id(std::uint32_t group, std::uint64_t message, std::uint64_t block);
  static std::uint32_t group_of(std::uint64_t work_id) {
    return static_cast<std::uint32_t>(work_id >> 50) & 0x3FF;
  }
  static constexpr std::uint64_t kMessageMask = 0x3FF;
  static std::uint64_t message_of(std::uint64_t work_id) { return work_id >> 40 & kMessageMask; }
  static std::uint64_t block_of(std::uint64_t work_id) { return work_id & ((std::uint64_t{1} << 40) - 1); }

 private:
  explicit Link(PeerId peer) : peer_(peer) {}

  const PeerId peer_;
  GroupName frame_group_{};  // The group that the open frame names last.
  std::uint64_t frame_ = 0;  // The number of the frame that names it; 0 if there is none.
};

}  // namespace rdmc::group

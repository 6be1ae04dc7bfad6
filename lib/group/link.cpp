#include "lib/group/link.hpp"

#include <cassert>

namespace rdmc::group {

std::uint64_t Link::block_write_id(std::uint32_t group, std::uint64_t message, std::uint64_t block) {
  assert(block < std::uint64_t{1} << 40);
  return std::uint64_t{group & 0x3FF} << 50 | (message & kMessageMask) << 40 | block;
}

Result<std::unique_ptr<Link>> Link::create(fabric::Fabric& fabric, PeerId peer, const LinkOptions& options) {
  std::unique_ptr<Link> link(new Link(peer));
  if (auto opened = link->open(fabric, options); !opened) return std::unexpected(opened.error());
  return link;
}

bool Link::make_room(std::size_t bytes) {
  static const std::size_t of_group = encoded_bytes(OfGroup{{.part = 1}});
  return FrameLink::make_room(bytes + of_group);
}

bool Link::send(const GroupName& name, const Record& record) {
  if (!make_room(encoded_bytes(record))) return false;
  if (frame_ != frames_opened() || frame_group_ != name) {
    fill(encode(OfGroup{name}, rest()), true);
    frame_group_ = name;
    frame_ = frames_opened();
  }
  fill(encode(record, rest()), std::holds_alternative<SmallMessage>(record));
  return true;
}

}  // namespace rdmc::group

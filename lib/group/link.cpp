#include "lib/group/link.hpp"

#include <cassert>

namespace rdmc::group {
namespace {

std::uint64_t id_of(Link::Work kind, std::uint64_t rest) {
  return static_cast<std::uint64_t>(kind) << 56 | rest;
}

}  // namespace

std::uint64_t Link::block_write_id(std::uint64_t message, std::uint64_t block) {
  assert(block < std::uint64_t{1} << 40);
  return id_of(Work::block_write, (message & 0xFFFF) << 40 | block);
}

Result<std::unique_ptr<Link>> Link::create(fabric::Fabric& fabric, Rank peer,
                                           fabric::QueuePairOptions options) {
  std::unique_ptr<Link> link(new Link(peer));
  auto buffers = memory::Arena::make((kReceives + kControlSends) * kControlFrameBytes);
  if (!buffers) return std::unexpected(buffers.error());
  link->buffers_ = std::move(*buffers);
  if (fabric.info().pins_memory) {
    auto region =
        fabric.register_memory(link->buffers_.bytes(), fabric::MemoryUse::general, RemoteAccess::none);
    if (!region) return std::unexpected(region.error());
    link->region_ = std::move(*region);
  }
  if (options.send_depth == 0) return fail(Errc::invalid_argument, "a queue pair that can send nothing");
  link->most_writes_ = options.send_depth;
  options.send_depth += kControlSends;
  options.receive_depth = kReceives;
  options.largest_receive = kControlFrameBytes;
  auto queue_pair = fabric.create_queue_pair(options);
  if (!queue_pair) return std::unexpected(queue_pair.error());
  link->queue_pair_ = std::move(*queue_pair);
  for (std::uint32_t i = 0; i < kReceives; ++i) {
    if (auto posted = link->post_receive(i); !posted) return std::unexpected(posted.error());
  }
  for (std::uint32_t i = 0; i < kControlSends; ++i) link->free_sends_.push_back(i);
  return link;
}

std::span<std::byte, kControlFrameBytes> Link::buffer(std::uint32_t index) const {
  return buffers_.bytes().subspan(index * kControlFrameBytes).first<kControlFrameBytes>();
}

Result<void> Link::post_receive(std::uint32_t index) {
  return queue_pair_->post_receive({.work_id = id_of(Work::receive, index), .bytes = buffer(index)});
}

Result<void> Link::send_control(const ControlFrame& frame) {
  assert(can_send_control());
  const std::uint32_t index = free_sends_.back();
  const auto out = buffer(kReceives + index);
  const std::size_t length = encode(frame, out);
  auto posted =
      queue_pair_->post_send({.work_id = id_of(Work::control_send, index), .bytes = out.first(length)});
  if (posted) free_sends_.pop_back();
  return posted;
}

Result<void> Link::write(const fabric::WriteRequest& request) {
  assert(can_write());
  auto posted = queue_pair_->post_write(request);
  if (posted) ++writes_;
  return posted;
}

std::span<const std::byte> Link::received(const fabric::Completion& completion) const {
  return buffer(static_cast<std::uint32_t>(completion.work_id)).first(completion.byte_count);
}

Result<void> Link::repost(std::uint64_t work_id) {
  return post_receive(static_cast<std::uint32_t>(work_id));
}

}  // namespace rdmc::group

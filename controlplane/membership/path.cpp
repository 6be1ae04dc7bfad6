#include "controlplane/membership/path.hpp"

#include <algorithm>

namespace rdmc::membership {

memory::Arena Path::end(std::unique_ptr<Path> path) {
  path->queue_pair_.reset();
  path->pinned_.reset();
  return std::move(path->arena_);
}

Result<std::unique_ptr<Path>> Path::create(fabric::Fabric& fabric, std::optional<memory::Arena> arena) {
  std::unique_ptr<Path> path(new Path());
  if (!arena) {
    auto made = fabric.make_arena((kReceives + kSends) * DataPath::kMostBytes, memory::Touch::when_used);
    if (!made) return std::unexpected(made.error());
    arena = std::move(*made);
  }
  path->arena_ = std::move(*arena);
  if (fabric.info().pins_memory) {
    auto pinned =
        fabric.register_memory(path->arena_.bytes(), fabric::MemoryUse::general, RemoteAccess::none);
    if (!pinned) return std::unexpected(pinned.error());
    path->pinned_ = std::move(*pinned);
  }
  auto queue_pair =
      fabric.create_queue_pair({.send_depth = kSends,
                                .receive_depth = kReceives,
                                .largest_receive = static_cast<std::uint32_t>(DataPath::kMostBytes),
                                .bulk = false});
  if (!queue_pair) return std::unexpected(queue_pair.error());
  path->queue_pair_ = std::move(*queue_pair);
  for (std::uint32_t slot = 0; slot < kReceives; ++slot) path->post_receive(slot);
  for (std::uint32_t slot = kReceives; slot < kReceives + kSends; ++slot) path->free_.push_back(slot);
  return path;
}

std::span<std::byte> Path::slot_of(std::uint32_t slot) const {
  return arena_.bytes().subspan(slot * DataPath::kMostBytes, DataPath::kMostBytes);
}

void Path::post_receive(std::uint32_t slot) {
  // Posting fails only if the queue pair is in the error state. poll() and has_failed_now() notice this
  // state.
  static_cast<void>(queue_pair_->post_receive({.work_id = slot, .bytes = slot_of(slot)}));
}

bool Path::say(std::span<const std::byte> message) {
  if (free_.empty() || message.size() > DataPath::kMostBytes) return false;
  const std::uint32_t slot = free_.back();
  std::ranges::copy(message, slot_of(slot).begin());
  if (!queue_pair_->post_send({.work_id = slot, .bytes = slot_of(slot).first(message.size())})) return false;
  free_.pop_back();
  return true;
}

bool Path::write(WindowKey window, std::uint64_t offset, std::span<const std::byte> bytes) {
  if (free_.empty() || bytes.size() > DataPath::kMostBytes) return false;
  const std::uint32_t slot = free_.back();
  std::ranges::copy(bytes, slot_of(slot).begin());
  if (!queue_pair_->post_write({.work_id = slot,
                                .bytes = slot_of(slot).first(bytes.size()),
                                .remote_address = window.address + offset,
                                .remote_key = window.key}))
    return false;
  free_.pop_back();
  return true;
}

}  // namespace rdmc::membership

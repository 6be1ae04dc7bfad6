// The memory of lanes: pages that two processes share, or that both ends of connections within one process
// use.
#pragma once

#include <memory>
#include <utility>

#include "dataplane/memory/shared_pages.hpp"
#include "lib/socket/lane_pool.hpp"

namespace rdmc::sockets {

struct LanePages {
  std::shared_ptr<const memory::SharedPages> pages;
  std::shared_ptr<LanePool> pool;
};

/// Makes lanes in `pages`, which must have LanePool::kBytes. `first` is true if this process made the pages
/// and no peer has them yet. `peer` is the memory of the peer's process, or null if it cannot be read.
inline LanePages make_lanes(memory::SharedPages pages, bool first,
                            std::shared_ptr<const fabric::PeerMemory> peer) {
  auto owner = std::make_shared<const memory::SharedPages>(std::move(pages));
  return {owner, std::make_shared<LanePool>(owner, owner->bytes(), first, std::move(peer))};
}

/// Makes lanes that will be shared with one peer. Errors: those of SharedPages::make.
inline Result<LanePages> make_lanes(std::shared_ptr<const fabric::PeerMemory> peer) {
  auto pages = memory::SharedPages::make(LanePool::kBytes, memory::SharedPages::Peers::may_write,
                                         memory::Touch::when_used);
  if (!pages) return std::unexpected(pages.error());
  return make_lanes(std::move(*pages), true, std::move(peer));
}

/// Makes the two pools for the ends of connections within this process. `own` is this process's memory.
/// Errors: those of SharedPages::make.
inline Result<std::pair<std::shared_ptr<LanePool>, std::shared_ptr<LanePool>>> make_lane_pools(
    const std::shared_ptr<const fabric::PeerMemory>& own = nullptr) {
  const auto near = make_lanes(own);
  if (!near) return std::unexpected(near.error());
  return std::pair(near->pool, std::make_shared<LanePool>(near->pages, near->pages->bytes(), false, own));
}

}  // namespace rdmc::sockets

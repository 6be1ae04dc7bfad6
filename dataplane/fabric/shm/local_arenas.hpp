// The memory of a fabric that its peers can map: the arenas that the fabric made, by number. The references
// to the arenas are weak, because other memory may have the addresses of an arena that is gone. Owned by the
// fabric; used by one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dataplane/memory/shared_pages.hpp"

namespace rdmc::fabric::shm {

class LocalArenas {
 public:
  struct Found {
    std::uint32_t number = 0;  ///< This number is never used for another arena.
    std::uint64_t offset = 0;
    std::shared_ptr<const memory::SharedPages> pages;
  };

  void add(const std::shared_ptr<const memory::SharedPages>& pages) {
    arenas_.push_back({next_++, pages->bytes(), pages});
  }
  bool is_alive(std::uint32_t number) const {
    const auto known = std::ranges::find(arenas_, number, &Entry::number);
    return known != arenas_.end() && !known->pages.expired();
  }
  /// Finds the arena that contains all of `bytes`. Returns nullopt if there is none.
  std::optional<Found> find(std::span<const std::byte> bytes) {
    std::erase_if(arenas_, [](const Entry& entry) { return entry.pages.expired(); });
    for (const Entry& entry : arenas_) {
      const auto begin = reinterpret_cast<std::uintptr_t>(entry.bytes.data());
      const auto at = reinterpret_cast<std::uintptr_t>(bytes.data());
      if (at < begin || at - begin > entry.bytes.size()) continue;
      if (bytes.size() <= entry.bytes.size() - (at - begin))
        return Found{entry.number, at - begin, entry.pages.lock()};
    }
    return std::nullopt;
  }

 private:
  struct Entry {
    std::uint32_t number;
    std::span<std::byte> bytes;
    std::weak_ptr<const memory::SharedPages> pages;
  };
  std::vector<Entry> arenas_;
  std::uint32_t next_ = 1;
};

}  // namespace rdmc::fabric::shm

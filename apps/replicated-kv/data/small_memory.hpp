// The memory of keys and values, and the number of bytes that they need. This number follows only from what
// the keys and values are, and not from how their memory has grown. So all replicas have the same number, and
// can refuse a command or evict keys at the same point. Small objects come from pools of equal blocks, so
// that a small key costs no call of malloc and no header of malloc (std::pmr::unsynchronized_pool_resource;
// docs/kv.md has the measured bytes per key). Objects above kMostPooledBytes come from operator new. One
// thread uses it. It must exist longer than everything that was allocated from it.
#pragma once

#include <cstddef>
#include <memory_resource>

namespace rdmc::kv {

class SmallMemory {
 public:
  static constexpr std::size_t kMostPooledBytes = 512;

  void* allocate(std::size_t bytes) { return pools_.allocate(bytes, alignof(void*)); }
  void free(void* object, std::size_t bytes) { pools_.deallocate(object, bytes, alignof(void*)); }
  /// An object says what it needs. It must not count memory that it only keeps for later.
  void add(std::size_t bytes) { used_ += bytes; }
  void subtract(std::size_t bytes) { used_ -= bytes; }
  /// Returns the bytes that all objects need.
  std::size_t used() const { return used_; }

 private:
  static constexpr std::pmr::pool_options kPools{.max_blocks_per_chunk = 4096,
                                                 .largest_required_pool_block = kMostPooledBytes};

  std::pmr::unsynchronized_pool_resource pools_{kPools};
  std::size_t used_ = 0;
};

}  // namespace rdmc::kv

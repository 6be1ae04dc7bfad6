// The store of a message that lies completely in the application's memory. It has a slot for each block. A
// block is consumed as soon as it has arrived.
#pragma once

#include <span>
#include <vector>

#include "dataplane/relay/plan.hpp"
#include "lib/group/store.hpp"

namespace rdmc::group {

class MemoryStore final : public Store {
 public:
  /// `memory` must have space for the message and must outlive the store.
  MemoryStore(std::span<std::byte> memory, std::uint64_t bytes, std::uint32_t block_bytes)
      : memory_(memory), blocks_(relay::block_count(bytes, block_bytes)) {}

  std::span<std::byte> memory() override { return memory_; }
  std::uint64_t slots() const override { return blocks_; }
  Result<std::uint64_t> available() override { return blocks_; }
  void arrived(std::uint64_t block, std::uint32_t) override { consumed_.push_back(block); }
  Result<void> poll_consumed(std::vector<std::uint64_t>& blocks) override {
    blocks.insert(blocks.end(), consumed_.begin(), consumed_.end());
    consumed_.clear();
    return {};
  }
  void released(std::uint64_t) override {}

 private:
  std::span<std::byte> memory_;
  std::uint64_t blocks_;
  std::vector<std::uint64_t> consumed_;
};

}  // namespace rdmc::group

#include "apps/replicated-kv/data/text.hpp"

#include <algorithm>

namespace rdmc::kv {

Text::Block* Text::allocate(SmallMemory& memory, std::size_t capacity) {
  auto* const block = static_cast<Block*>(memory.allocate(kHeadBytes + capacity));
  block->memory = &memory;
  return block;
}

void Text::assign(SmallMemory& memory, std::string_view bytes) {
  // A block that fits is used again.
  if (is_inline() || bytes.size() <= kInlineBytes || heap_.capacity < bytes.size() ||
      heap_.capacity / 2 > bytes.size()) {
    release();
    if (bytes.size() > kInlineBytes)
      heap_ = {static_cast<std::uint32_t>(bytes.size()), allocate(memory, bytes.size())};
  } else {
    memory.subtract(kHeadBytes + size_);
  }
  size_ = static_cast<std::uint32_t>(bytes.size());
  if (!is_inline()) memory.add(kHeadBytes + size_);
  if (!bytes.empty()) std::memcpy(data(), bytes.data(), bytes.size());
}

void Text::resize(SmallMemory& memory, std::size_t size) {
  const std::size_t before = size_;
  if (size > kInlineBytes && (is_inline() || heap_.capacity < size)) {
    const std::size_t capacity =
        is_inline() && before == 0 ? size : std::max(size, std::min(2 * size, size + (1 << 20)));
    Block* const block = allocate(memory, capacity);
    std::memcpy(block->bytes, data(), before);
    release();
    heap_ = {static_cast<std::uint32_t>(capacity), block};
  } else if (size <= kInlineBytes && !is_inline()) {
    char kept[kInlineBytes];
    std::memcpy(kept, data(), size);
    release();
    std::memcpy(inline_, kept, size);
  } else if (!is_inline()) {
    memory.subtract(kHeadBytes + size_);
  }
  size_ = static_cast<std::uint32_t>(size);
  if (!is_inline()) memory.add(kHeadBytes + size_);
  if (size > before) std::memset(data() + before, 0, size - before);
}

void Text::append(SmallMemory& memory, std::string_view bytes) {
  const std::size_t before = size_;
  resize(memory, before + bytes.size());
  if (!bytes.empty()) std::memcpy(data() + before, bytes.data(), bytes.size());
}

}  // namespace rdmc::kv

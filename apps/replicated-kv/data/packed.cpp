#include "apps/replicated-kv/data/packed.hpp"

#include <algorithm>
#include <cstring>

namespace rdmc::kv {

namespace {

struct Size {
  std::size_t value, bytes;
};

Size size_at(const char* at) {
  Size size{0, 0};
  for (unsigned shift = 0;; shift += 7) {
    const auto group = static_cast<unsigned char>(at[size.bytes++]);
    size.value |= static_cast<std::size_t>(group & 0x7F) << shift;
    if (group < 0x80) return size;
  }
}

/// Reads the size that ends before `end`.
Size size_before(const char* end) {
  Size size{0, 0};
  for (unsigned shift = 0;; shift += 7) {
    const auto group = static_cast<unsigned char>(*--end);
    ++size.bytes;
    size.value |= static_cast<std::size_t>(group & 0x7F) << shift;
    if (group < 0x80) return size;
  }
}

std::size_t bytes_of_size(std::size_t size) {
  std::size_t bytes = 1;
  for (; size >= 0x80; size >>= 7) ++bytes;
  return bytes;
}

void write_element(char* to, std::string_view bytes) {
  const std::size_t head = bytes_of_size(bytes.size());
  std::size_t rest = bytes.size();
  for (std::size_t i = 0; i < head; ++i, rest >>= 7)
    to[i] = static_cast<char>((rest & 0x7F) | (i + 1 < head ? 0x80 : 0));
  if (!bytes.empty()) std::memcpy(to + head, bytes.data(), bytes.size());
  std::reverse_copy(to, to + head, to + head + bytes.size());
}

}  // namespace

std::size_t Packed::bytes_for(std::size_t size) {
  return 2 * bytes_of_size(size) + size;
}

std::string_view Packed::at(std::size_t offset) const {
  const Size size = size_at(block_->bytes + offset);
  return {block_->bytes + offset + size.bytes, size.value};
}

std::size_t Packed::next(std::size_t offset) const {
  const Size size = size_at(block_->bytes + offset);
  return offset + 2 * size.bytes + size.value;
}

std::size_t Packed::previous(std::size_t offset) const {
  const Size size = size_before(block_->bytes + offset);
  return offset - 2 * size.bytes - size.value;
}

std::size_t Packed::offset_of(std::size_t index) const {
  if (index <= count_ / 2) {
    std::size_t offset = 0;
    for (; index > 0; --index) offset = next(offset);
    return offset;
  }
  std::size_t offset = end();
  for (index = count_ - index; index > 0; --index) offset = previous(offset);
  return offset;
}

void Packed::resize(SmallMemory& memory, std::size_t bytes) {
  constexpr std::size_t kStep = 8;
  const std::size_t before = block_ == nullptr ? 0 : block_->capacity;
  const bool is_enough = bytes <= before, wastes = before > 64 && bytes < before / 2;
  if (bytes == 0 && block_ != nullptr) {
    memory.free(block_, kHeadBytes + before);
    block_ = nullptr;
  } else if (!is_enough || wastes) {
    // Growing by an eighth makes the cost of many insertions small.
    const std::size_t wanted = kHeadBytes + bytes + (bytes_ == 0 ? 0 : bytes / 8);
    const std::size_t capacity = (wanted + kStep - 1) / kStep * kStep - kHeadBytes;
    auto* const block = static_cast<Block*>(memory.allocate(kHeadBytes + capacity));
    block->capacity = static_cast<std::uint32_t>(capacity);
    if (block_ != nullptr) {
      std::memcpy(block->bytes, block_->bytes, std::min<std::size_t>(bytes_, bytes));
      memory.free(block_, kHeadBytes + before);
    }
    block_ = block;
  }
}

char* Packed::splice(SmallMemory& memory, std::size_t offset, std::size_t erased, std::size_t inserted) {
  const std::size_t after = bytes_ - offset - erased, total = bytes_ - erased + inserted;
  if (inserted > erased) resize(memory, total);
  if (after > 0 && inserted != erased)
    std::memmove(block_->bytes + offset + inserted, block_->bytes + offset + erased, after);
  if (inserted < erased) resize(memory, total);
  memory.subtract(bytes_);
  memory.add(total);
  bytes_ = static_cast<std::uint32_t>(total);
  return block_ == nullptr ? nullptr : block_->bytes + offset;
}

void Packed::insert(SmallMemory& memory, std::size_t offset, std::string_view bytes) {
  write_element(splice(memory, offset, 0, bytes_for(bytes.size())), bytes);
  ++count_;
}

void Packed::replace(SmallMemory& memory, std::size_t offset, std::string_view bytes) {
  write_element(splice(memory, offset, next(offset) - offset, bytes_for(bytes.size())), bytes);
}

void Packed::erase(SmallMemory& memory, std::size_t offset, std::size_t count) {
  std::size_t end = offset;
  for (std::size_t i = 0; i < count; ++i) end = next(end);
  splice(memory, offset, end - offset, 0);
  count_ -= static_cast<std::uint32_t>(count);
}

void Packed::clear(SmallMemory& memory) {
  memory.subtract(bytes_);
  resize(memory, 0);
  bytes_ = count_ = 0;
}

Packed Packed::copy(SmallMemory& memory) const {
  Packed copied;
  if (bytes_ == 0) return copied;
  copied.resize(memory, bytes_);
  std::memcpy(copied.block_->bytes, block_->bytes, bytes_);
  memory.add(bytes_);
  copied.bytes_ = bytes_;
  copied.count_ = count_;
  return copied;
}

}  // namespace rdmc::kv

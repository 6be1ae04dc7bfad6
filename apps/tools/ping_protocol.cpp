#include "apps/tools/ping_protocol.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <string>

#include "dataplane/base/bytes.hpp"

namespace rdmc::tools {
namespace {

constexpr unsigned kFirstCharacter = 65, kLastCharacter = 122,
                   kCharacters = kLastCharacter - kFirstCharacter + 1;

}  // namespace

std::array<std::byte, kPingBufferBytes> encode(const PingBuffer& buffer) {
  std::array<std::byte, kPingBufferBytes> bytes;
  store_be(bytes.data(), buffer.address);
  store_be(bytes.data() + 8, value_of(buffer.key));
  store_be(bytes.data() + 12, buffer.bytes);
  return bytes;
}

std::optional<PingBuffer> decode_ping_buffer(std::span<const std::byte> message) {
  if (message.size() != kPingBufferBytes) return std::nullopt;
  return PingBuffer{.address = load_be<std::uint64_t>(message.data()),
                    .key = RemoteKey{load_be<std::uint32_t>(message.data() + 8)},
                    .bytes = load_be<std::uint32_t>(message.data() + 12)};
}

void fill_ping(std::span<std::byte> text, std::uint32_t number) {
  assert(text.size() >= kLeastPingBytes);
  const std::string start = "rdma-ping-" + std::to_string(number) + ": ";
  std::memcpy(text.data(), start.data(), start.size());
  for (std::size_t i = start.size(); i < text.size(); ++i)
    text[i] = static_cast<std::byte>(kFirstCharacter + (number + i - start.size()) % kCharacters);
  text.back() = std::byte{0};
}

std::size_t ping_length(std::span<const std::byte> text) {
  const auto end = std::ranges::find(text, std::byte{0});
  return static_cast<std::size_t>(end - text.begin()) + (end == text.end() ? 0 : 1);
}

}  // namespace rdmc::tools

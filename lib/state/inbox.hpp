// The memory of the messages that a replica receives in one group. Each message gets memory of its own, so
// that the application may keep it. When too much waits for the application, messages wait for memory, which
// makes the sender slower. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/state/messages.hpp"

namespace rdmc::state {

class Inbox {
 public:
  /// The limit for posted buffers that are not used yet. Each of them is as long as the longest message.
  static constexpr std::size_t kMostPosted = 8;

  /// `most_message_bytes` is the length of the longest message that a correct sender sends.
  explicit Inbox(std::size_t most_message_bytes) : most_message_bytes_(most_message_bytes) {}

  /// Returns the memory for a message, or nullopt if it must wait for a posted buffer.
  std::optional<std::span<std::byte>> incoming(std::uint64_t bytes, bool has_room) {
    if (has_room && waiting_ == 0) return give(bytes, false);
    ++waiting_;
    return std::nullopt;
  }
  /// Posts buffers for the messages that wait, by `post(buffer)`. If that returns false, the messages go on
  /// to wait. So this function must be called again and again while there is room.
  template <typename Post>
  void post_buffers(Post post) {
    while (waiting_ > 0 && posted_ < kMostPosted) {
      const auto buffer = give(most_message_bytes_, true);
      if (!post(buffer)) {
        given_.erase(buffer.data());
        return;
      }
      --waiting_;
      ++posted_;
    }
  }
  /// The message in this memory has arrived. The group may still need the memory until reusable().
  std::shared_ptr<const Bytes> delivered(std::uint64_t message, std::span<const std::byte> bytes) {
    const auto found = given_.find(bytes.data());
    if (found == given_.end()) return nullptr;
    const Given given = std::move(found->second);
    given_.erase(found);
    retained_[message] = given.bytes;
    if (given.is_posted) {
      --posted_;
      return std::make_shared<const Bytes>(bytes.begin(), bytes.end());  // The buffer is much longer.
    }
    given.bytes->resize(bytes.size());  // This keeps the address.
    return given.bytes;
  }
  void retain(std::uint64_t message, std::shared_ptr<const Bytes> bytes) {
    retained_[message] = std::move(bytes);
  }
  void reusable(std::uint64_t message) { retained_.erase(message); }
  /// Messages that had begun are cancelled. The group keeps the posted buffers.
  void continued() {
    std::erase_if(given_, [](const auto& one) { return !one.second.is_posted; });
    waiting_ = 0;
  }

 private:
  struct Given {
    std::shared_ptr<Bytes> bytes;
    bool is_posted = false;
  };

  std::span<std::byte> give(std::uint64_t bytes, bool is_posted) {
    auto memory = std::make_shared<Bytes>(std::max<std::uint64_t>(bytes, 1));
    const std::span<std::byte> all(*memory);
    given_[all.data()] = {std::move(memory), is_posted};
    return all.first(bytes);
  }

  const std::size_t most_message_bytes_;
  std::map<const std::byte*, Given> given_;
  std::map<std::uint64_t, std::shared_ptr<const Bytes>> retained_;
  std::size_t waiting_ = 0, posted_ = 0;
};

}  // namespace rdmc::state

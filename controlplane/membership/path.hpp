// One queue pair with the memory for its small messages: slots for receives and slots for sends. The fabric
// thread owns it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "controlplane/membership/data_path.hpp"

namespace rdmc::membership {

class Path {
 public:
  static constexpr std::uint32_t kReceives = 32, kSends = 16;

  /// Makes a path. `arena` must be memory that end() has returned, or empty. Errors: resource_limit, and
  /// those of the fabric.
  static Result<std::unique_ptr<Path>> create(fabric::Fabric& fabric, std::optional<memory::Arena> arena);
  /// Destroys the path and returns its memory, so that another path can use it. Unmapping the memory would
  /// take longer than everything else in this function.
  static memory::Arena end(std::unique_ptr<Path> path);

  fabric::QueuePair& queue_pair() { return *queue_pair_; }
  /// Sends `message`. Returns false if no slot is free, or if the queue pair is not connected.
  bool say(std::span<const std::byte> message);
  bool write(WindowKey window, std::uint64_t offset, std::span<const std::byte> bytes);
  /// Calls `heard(bytes)` for each received message. Returns the number of completions.
  template <typename Heard>
  std::size_t poll(Heard heard) {
    std::array<fabric::Completion, 16> done;
    const std::size_t count = queue_pair_->poll_completions(done);
    for (std::size_t i = 0; i < count; ++i) {
      if (done[i].status != fabric::WorkStatus::success) continue;
      if (done[i].kind != fabric::WorkKind::receive) {
        free_.push_back(static_cast<std::uint32_t>(done[i].work_id));
        continue;
      }
      const auto slot = static_cast<std::uint32_t>(done[i].work_id);
      heard(slot_of(slot).first(done[i].byte_count));
      post_receive(slot);
    }
    return count;
  }
  /// Returns a permit for one message. Returns null if kMostUnheard permits exist already.
  DataPath::Permit permit() {
    if (static_cast<std::size_t>(places_.use_count()) > DataPath::kMostUnheard) return nullptr;
    return places_;
  }
  /// Returns true once, after the queue pair has entered the error state.
  bool has_failed_now() {
    return !failed_ && queue_pair_->state() == fabric::QueuePairState::error && (failed_ = true);
  }
  /// Marks the path as failed, as if the failure of the queue pair had been reported.
  void give_up() { failed_ = true; }
  bool has_been_given_up() const { return failed_; }

 private:
  Path() = default;
  std::span<std::byte> slot_of(std::uint32_t slot) const;
  void post_receive(std::uint32_t slot);

  memory::Arena arena_;
  std::unique_ptr<fabric::MemoryRegion> pinned_;
  // The queue pair must be destroyed before the memory that it uses.
  std::unique_ptr<fabric::QueuePair> queue_pair_;
  // The free slots for sends.
  std::vector<std::uint32_t> free_;
  bool failed_ = false;
  /// The use count of this pointer is the number of permits plus one.
  const std::shared_ptr<int> places_ = std::make_shared<int>();
};

}  // namespace rdmc::membership

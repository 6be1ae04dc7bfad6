// One queue pair with the memory of its small messages: slots that are received into and slots that are sent
// from. Owned by the data path's engine thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "controlplane/membership/data_path.hpp"

namespace rdmc::membership {

class Path {
 public:
  static constexpr std::uint32_t kReceives = 32, kSends = 16;

  /// `arena` is one that end() gave, or none. Errors: resource_limit, and those of the fabric.
  static Result<std::unique_ptr<Path>> create(fabric::Fabric& fabric, std::optional<memory::Arena> arena);
  /// The end of a path whose memory is to be another's: to give it back takes longer than all else here.
  static memory::Arena end(std::unique_ptr<Path> path);

  fabric::QueuePair& queue_pair() { return *queue_pair_; }
  /// False: no room, or not connected.
  bool say(std::span<const std::byte> message);
  bool write(WindowKey window, std::uint64_t offset, std::span<const std::byte> bytes);
  /// Hands what came to `heard(bytes)`; returns how many completions there were.
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
  /// Holds one of so many places until it is destroyed; none when all are held.
  DataPath::Permit permit() {
    if (static_cast<std::size_t>(places_.use_count()) > DataPath::kMostUnheard) return nullptr;
    return places_;
  }
  /// Once, that the queue pair is in the error state.
  bool has_failed_now() {
    return !failed_ && queue_pair_->state() == fabric::QueuePairState::error && (failed_ = true);
  }
  /// As if the queue pair had failed, and that had been told.
  void give_up() { failed_ = true; }
  bool has_been_given_up() const { return failed_; }

 private:
  Path() = default;
  std::span<std::byte> slot_of(std::uint32_t slot) const;
  void post_receive(std::uint32_t slot);

  memory::Arena arena_;
  std::unique_ptr<fabric::MemoryRegion> pinned_;
  std::unique_ptr<fabric::QueuePair> queue_pair_;  // goes before the memory that it uses
  std::vector<std::uint32_t> free_;                // slots to send from
  bool failed_ = false;
  const std::shared_ptr<int> places_ = std::make_shared<int>();  ///< counts who holds it
};

}  // namespace rdmc::membership

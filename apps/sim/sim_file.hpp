// A receiver's file and disk in the simulation. The file keeps every byte and notes violations. The message
// store before the file is a ring buffer, as in the real program. It is emptied at the disk's speed. One
// thread uses the objects, in virtual time.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "apps/bcast-cli/file_shape.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/memory/arena.hpp"
#include "lib/group/store.hpp"

namespace rdmc::sim_app {

struct DiskOptions {
  std::uint64_t bits_per_second = 200'000'000'000;
  std::uint64_t full_after_blocks = UINT64_MAX;
};

class SimFile {
 public:
  SimFile(bcast::FileShape shape, DiskOptions disk)
      : shape_(shape), disk_(disk), bytes_(shape.size), held_(shape.blocks()) {}

  const bcast::FileShape& shape() const { return shape_; }
  const DiskOptions& disk() const { return disk_; }
  const bcast::BlockMap& held() const { return held_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& violation() const { return violation_; }
  /// True if a block was refused because the disk was full.
  bool filled_up() const { return filled_up_; }

  Result<void> write(std::uint64_t block, std::span<const std::byte> bytes) {
    if (bytes.size() != shape_.bytes(block)) violation_ = "a block of a wrong length reached the file";
    if (!held_.contains(block)) {
      if (held_.count() >= disk_.full_after_blocks) {
        filled_up_ = true;
        return fail(Errc::no_space, "the simulated disk is full");
      }
      if (!bytes.empty()) std::memcpy(bytes_.data() + shape_.offset(block), bytes.data(), bytes.size());
      held_.insert(block);
    } else if (!bytes.empty() &&
               std::memcmp(bytes_.data() + shape_.offset(block), bytes.data(), bytes.size()) != 0) {
      violation_ = "a block came twice with different bytes";
    }
    return {};
  }

 private:
  bcast::FileShape shape_;
  DiskOptions disk_;
  std::vector<std::byte> bytes_;
  bcast::BlockMap held_;
  std::string violation_;
  bool filled_up_ = false;
};

/// A receiver's message store for one epoch.
class SimSink final : public group::Store {
 public:
  SimSink(SimFile& file, bcast::BlockMap message, std::uint64_t slots)
      : file_(file),
        blocks_(file.shape(), std::move(message)),
        slots_(slots),
        ring_(*memory::Arena::make(slots * file.shape().block_size)),
        arrivals_(blocks_.count()) {}

  /// Sets the time of this turn. The blocks that arrive in the turn are written to the disk one after the
  /// other from this time on.
  void set_now(Time now) { now_ = now; }
  Time next_deadline() const { return writing_.empty() ? Time::never() : writing_.front().done; }

  std::span<std::byte> memory() override { return ring_.bytes(); }
  std::uint64_t slots() const override { return slots_; }
  Result<std::uint64_t> available() override { return std::uint64_t{0}; }
  void arrived(std::uint64_t block, std::uint32_t bytes) override {
    if (arrivals_[block]) twice_ = true;
    arrivals_[block] = true;
    const auto took =
        static_cast<std::int64_t>(bytes * 8e9 / static_cast<double>(file_.disk().bits_per_second));
    disk_free_ = std::max(disk_free_, now_) + nanoseconds(took);
    writing_.push_back({block, bytes, disk_free_, false});
  }
  void omitted(std::uint64_t block) override {
    if (arrivals_[block]) twice_ = true;
    arrivals_[block] = true;
    writing_.push_back({block, 0, std::max(disk_free_, now_), true});
  }
  Result<void> poll_consumed(std::vector<std::uint64_t>& blocks) override {
    for (; !writing_.empty() && writing_.front().done <= now_; writing_.pop_front()) {
      const auto& [block, bytes, done, is_omitted] = writing_.front();
      const auto where = ring_.bytes().subspan(block % slots_ * file_.shape().block_size, bytes);
      if (auto written = is_omitted ? Result<void>{} : file_.write(blocks_.real(block), where); !written)
        return written;
      // The slot of a block in this list may be used again. If a peer still reads the slot then, it reads
      // wrong bytes, and its digest shows the error.
      blocks.push_back(block);
    }
    return {};
  }
  void released(std::uint64_t) override {}
  bool delivered_twice() const { return twice_; }

 private:
  struct Writing {
    std::uint64_t block;
    std::uint32_t bytes;
    Time done;
    bool is_omitted;
  };
  SimFile& file_;
  bcast::VirtualBlocks blocks_;
  std::uint64_t slots_;
  memory::Arena ring_;
  std::vector<bool> arrivals_;
  std::deque<Writing> writing_;
  Time now_{}, disk_free_{};
  bool twice_ = false;
};

/// The source's message store for one epoch: a ring buffer that is filled from the file as slots become free.
class SimSource final : public group::Store {
 public:
  /// `before_last` is called before the last block can be sent.
  SimSource(std::span<const std::byte> file, bcast::FileShape shape, bcast::BlockMap message,
            std::uint64_t slots, std::function<void()> before_last)
      : before_last_(std::move(before_last)),
        file_(file),
        blocks_(shape, std::move(message)),
        slots_(slots),
        ring_(*memory::Arena::make(slots * shape.block_size)) {
    fill(slots_);
  }
  std::span<std::byte> memory() override { return ring_.bytes(); }
  std::uint64_t slots() const override { return slots_; }
  Result<std::uint64_t> available() override { return read_; }
  void arrived(std::uint64_t, std::uint32_t) override {}
  Result<void> poll_consumed(std::vector<std::uint64_t>&) override { return {}; }
  void released(std::uint64_t limit) override { fill(limit + slots_); }

 private:
  void fill(std::uint64_t limit) {
    const auto& shape = blocks_.shape();
    for (; read_ < std::min(limit, blocks_.count()); ++read_) {
      if (read_ + 1 == blocks_.count() && before_last_) before_last_();
      const std::uint64_t block = blocks_.real(read_);
      const auto from = file_.subspan(shape.offset(block), shape.bytes(block));
      std::copy(from.begin(), from.end(),
                ring_.bytes().begin() + static_cast<std::ptrdiff_t>(read_ % slots_ * shape.block_size));
    }
  }
  std::function<void()> before_last_;
  std::span<const std::byte> file_;
  bcast::VirtualBlocks blocks_;
  std::uint64_t slots_, read_ = 0;
  memory::Arena ring_;
};

}  // namespace rdmc::sim_app

#include "apps/bcast-cli/file_sink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "dataplane/base/no_memory.hpp"
#include "dataplane/base/signal_masked_thread.hpp"

namespace rdmc::bcast {
namespace {

std::uint64_t bytes_in(const FileShape& shape, const BlockMap& held) {
  const auto whole = held.count() * shape.block_size;
  const auto last = shape.blocks() - 1;
  return held.contains(last) ? whole - shape.block_size + shape.bytes(last) : whole;
}

}  // namespace

Result<std::unique_ptr<FileSink>> FileSink::start(ReceivedFile& file, BlockMap map, std::span<std::byte> ring,
                                                  std::function<void()> wake, std::stop_token unwanted,
                                                  bool is_straggler) {
  if (map.count() == 0)
    return fail(Errc::protocol_error, fmt::format("the epoch has no blocks for {}", file.path()));
  std::unique_ptr<FileSink> sink(
      new FileSink(file, std::move(map), ring, std::move(wake), std::move(unwanted), is_straggler));
  auto thread = start_signal_masked_thread("to write a file", [raw = sink.get()] { raw->run(); });
  if (!thread) return std::unexpected(thread.error());
  sink->writer_ = std::move(*thread);
  return sink;
}

FileSink::FileSink(ReceivedFile& file, BlockMap map, std::span<std::byte> ring, std::function<void()> wake,
                   std::stop_token unwanted, bool is_straggler)
    : file_(file),
      blocks_(file.shape(), std::move(map)),
      slots_(std::min<std::uint64_t>(blocks_.count(), ring.size() / file.shape().block_size)),
      ring_(ring.first(slots_ * file.shape().block_size)),
      wake_(std::move(wake)),
      unwanted_(std::move(unwanted)),
      is_straggler_(is_straggler),
      written_(slots_, false),
      omitted_(slots_, false),
      bytes_held_(bytes_in(file.shape(), file.held())) {
  assert(slots_ > 0);
}

FileSink::~FileSink() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  if (writer_.joinable()) writer_.join();
}

void FileSink::arrived(std::uint64_t block, std::uint32_t bytes) {
  assert(block < std::min(blocks_.count(), consumed_limit_ + slots_) && bytes == blocks_.bytes(block));
  queue({block, false});
}

void FileSink::omitted(std::uint64_t block) {
  assert(block < std::min(blocks_.count(), consumed_limit_ + slots_));
  queue({block, true});
}

void FileSink::queue(Block block) {
  {
    const std::lock_guard lock(mutex_);
    arrived_.push_back(block);
  }
  changed_.notify_one();
}

Result<void> FileSink::poll_consumed(std::vector<std::uint64_t>& blocks) {
  if (!news_.exchange(false, std::memory_order_acquire)) return {};
  const std::lock_guard lock(mutex_);
  consumed_limit_ += consumed_.size();
  blocks.insert(blocks.end(), consumed_.begin(), consumed_.end());
  consumed_.clear();
  if (!error_) return {};
  news_ = true;  // This makes the next call return the error again.
  return std::unexpected(*error_);
}

std::span<const std::byte> FileSink::slot_of(std::uint64_t index) const {
  return ring_.subspan(index % slots_ * file_.shape().block_size, blocks_.bytes(index));
}

void FileSink::run() {
  auto ended = or_no_memory([this] { return write_all(); });
  if (ended || unwanted_.stop_requested()) return;
  {
    const std::lock_guard lock(mutex_);
    error_ = std::move(ended.error());
  }
  tell();
}

Result<void> FileSink::write_all() {
  std::vector<Block> batch;
  for (;;) {
    batch.clear();
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ending_ || !arrived_.empty(); });
      if (arrived_.empty()) return {};
      batch.swap(arrived_);
    }
    const auto consumed_before = next_to_hash_;
    if (auto done = take(batch); !done) return done;
    if (unwanted_.stop_requested()) return {};
    if (next_to_hash_ != consumed_before) publish(consumed_before);
  }
}

Result<void> FileSink::take(std::span<const Block> arrived) {
  const auto most = is_straggler_ ? std::max<std::uint64_t>(1, slots_ / 8) : slots_;
  std::uint64_t written = 0;
  for (const auto& [index, was_omitted] : arrived) {
    if (unwanted_.stop_requested()) return {};
    const auto block = blocks_.real(index);
    const bool is_omitted = was_omitted || ++written > most;
    if (!is_omitted && !file_.held().contains(block)) {
      if (auto done = file_.write(block, slot_of(index)); !done) return done;
      bytes_held_.fetch_add(blocks_.bytes(index), std::memory_order_relaxed);
    }
    written_[index % slots_] = true;
    omitted_[index % slots_] = is_omitted;
  }
  for (; next_to_hash_ < blocks_.count() && written_[next_to_hash_ % slots_]; ++next_to_hash_) {
    const auto slot = next_to_hash_ % slots_;
    if (!omitted_[slot]) {
      if (auto done = file_.hash(blocks_.real(next_to_hash_), slot_of(next_to_hash_)); !done) return done;
    }
    written_[slot] = false;
  }
  // The file may have blocks after the epoch's last block, from an earlier epoch. They are hashed now.
  if (next_to_hash_ == blocks_.count()) return file_.hash_held_prefix();
  return {};
}

void FileSink::publish(std::uint64_t consumed_before) {
  {
    const std::lock_guard lock(mutex_);
    for (auto index = consumed_before; index < next_to_hash_; ++index) consumed_.push_back(index);
  }
  tell();
}

void FileSink::tell() {
  news_.store(true, std::memory_order_release);
  if (wake_) wake_();
}

}  // namespace rdmc::bcast

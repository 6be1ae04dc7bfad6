#include "lib/socket/lane.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace rdmc::sockets {
namespace {

/// Copied between two looks at the other end: it works on one piece while we work on the next.
constexpr std::size_t kPieceBytes = 32 * 1024;

/// The part of `ring` that begins at `position`, at most `most` bytes and not beyond its end.
std::span<std::byte> part(std::span<std::byte> ring, std::uint64_t position, std::size_t most) {
  const std::size_t at = position & (ring.size() - 1);
  return ring.subspan(at, std::min(most, ring.size() - at));
}

}  // namespace

void wake_sleepers(std::atomic<std::uint32_t>& word) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

void ring_bell(LaneBell& bell, Wake wake) noexcept {
  if (bell.asleep.load() != 0 && bell.asleep.exchange(0) != 0) wake(bell.asleep);
}

LaneWriter::LaneWriter(LaneMemory memory, Wake wake) : memory_(std::move(memory)), wake_(wake) {}

std::size_t LaneWriter::room() {
  const std::uint64_t read = memory_.head->read.load();
  if (read >= read_ && read <= written_) read_ = read;  // else a lie, which changes nothing
  return memory_.ring.size() - static_cast<std::size_t>(written_ - read_);
}

bool LaneWriter::has_room(const LaneMemory& memory) {
  return memory.head->written.load() - memory.head->read.load() < memory.ring.size();
}

std::size_t LaneWriter::write(std::span<const std::byte> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    std::size_t free = memory_.ring.size() - static_cast<std::size_t>(written_ - read_);
    if (free < std::min(bytes.size() - done, kPieceBytes)) free = room();
    if (free == 0) break;
    const auto to = part(memory_.ring, written_, std::min({free, kPieceBytes, bytes.size() - done}));
    std::memcpy(to.data(), bytes.data() + done, to.size());
    done += to.size();
    written_ += to.size();
    memory_.head->written.store(written_);  // in one order with the look at the bell
    ring_bell(memory_.head->reader, wake_);
  }
  return done;
}

LaneReader::LaneReader(LaneMemory memory, Wake wake) : memory_(std::move(memory)), wake_(wake) {}

LaneReader::~LaneReader() {
  memory_.head->left.store(1);
}

std::size_t LaneReader::available() {
  const std::uint64_t count = memory_.head->written.load() - read_;
  is_broken_ = is_broken_ || count > memory_.ring.size();
  return is_broken_ ? 0 : static_cast<std::size_t>(count);
}

bool LaneReader::has_bytes(const LaneMemory& memory) {
  return memory.head->written.load() != memory.head->read.load();
}

std::size_t LaneReader::read(std::span<std::byte> out, bool peek) {
  std::size_t done = 0;
  std::uint64_t at = read_;
  std::size_t left = std::min(available(), out.size());
  while (left > 0) {
    const auto from = part(memory_.ring, at, std::min(left, kPieceBytes));
    std::memcpy(out.data() + done, from.data(), from.size());
    done += from.size();
    at += from.size();
    left -= from.size();
    if (peek) continue;
    read_ = at;
    memory_.head->read.store(read_);
    if (is_roomy()) ring_bell(memory_.head->writer, wake_);
  }
  return done;
}

/// Half of it is free: who waits for room is worth a wake-up.
bool LaneReader::is_roomy() const {
  return memory_.head->written.load() - read_ <= memory_.ring.size() / 2;
}

bool LaneReader::take_writer_wants_record() {
  auto& wants = memory_.head->writer.by_record;
  return wants.load() != 0 && is_roomy() && wants.exchange(0) != 0;
}

}  // namespace rdmc::sockets

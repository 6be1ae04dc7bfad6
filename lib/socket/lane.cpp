#include "lib/socket/lane.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "dataplane/base/futex.hpp"

namespace rdmc::sockets {
namespace {

/// The number of bytes that are copied before the other end's counts are checked again. Because of these
/// checks, the two ends work on different pieces at the same time.
constexpr std::size_t kPieceBytes = 32 * 1024;

std::uint32_t bytes_of(std::uint64_t terms) {
  return static_cast<std::uint32_t>(terms);
}

/// Returns the part of `ring` that begins at `position`. The part has at most `most` bytes and ends at the
/// end of `ring` at the latest.
std::span<std::byte> part(std::span<std::byte> ring, std::uint64_t position, std::size_t most) {
  const std::size_t at = position & (ring.size() - 1);
  return ring.subspan(at, std::min(most, ring.size() - at));
}

}  // namespace

void wake_sleepers(Atomic<std::uint32_t>& word) noexcept {
  futex_wake(word, INT32_MAX, FutexUsers::several_processes);
}

void ring_bell(LaneBell& bell, Wake wake) noexcept {
  if (bell.asleep.load() != 0 && bell.asleep.exchange(0) != 0) wake(bell.asleep);
}

LaneWriter::LaneWriter(LaneMemory memory, Wake wake) : memory_(std::move(memory)), wake_(wake) {}

std::size_t LaneWriter::room() {
  const std::uint64_t read = memory_.head->read.load();
  // A count outside these bounds is false and changes nothing.
  if (read >= read_ && read <= written_) read_ = read;
  return memory_.ring.size() - static_cast<std::size_t>(written_ - read_);
}

bool LaneWriter::has_room(const LaneMemory& memory) {
  const LaneAdvert& advert = memory.head->advert;
  if (bytes_of(advert.terms.load()) != 0) return advert.is_wanted.load() == 0;
  return memory.head->written.load() - memory.head->read.load() < memory.ring.size();
}

/// Copies `bytes` into the ring buffer, `ahead` bytes after the published bytes.
void LaneWriter::put(std::size_t ahead, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto to = part(memory_.ring, written_ + ahead, bytes.size());
    std::memcpy(to.data(), bytes.data(), to.size());
    ahead += to.size();
    bytes = bytes.subspan(to.size());
  }
}

void LaneWriter::publish(std::size_t count) {
  written_ += count;
  memory_.head->written.store(written_);  // This store is sequentially consistent with the check of the bell.
  ring_bell(memory_.head->reader, wake_);
}

std::size_t LaneWriter::write(std::span<const std::byte> bytes) {
  bytes = bytes.first(std::min(bytes.size(), memory_.ring.size()));
  std::size_t done = 0;
  while (done < bytes.size() && !is_advertising()) {
    std::size_t free = memory_.ring.size() - static_cast<std::size_t>(written_ - read_);
    if (free < std::min(bytes.size() - done, kPieceBytes)) free = room();
    if (free == 0) break;
    const std::size_t count = std::min({free, kPieceBytes, bytes.size() - done});
    put(0, bytes.subspan(done, count));
    publish(count);
    done += count;
  }
  return done;
}

std::size_t LaneWriter::advertise(std::span<const std::byte> bytes, std::span<const std::byte> next) {
  LaneAdvert& advert = memory_.head->advert;
  advertised_ = bytes;
  ++adverts_;
  advert.end.store(reinterpret_cast<std::uint64_t>(bytes.data() + bytes.size()));
  advert.terms.store(std::uint64_t{adverts_} << 32 | bytes.size());
  ring_bell(memory_.head->reader, wake_);
  ahead_ = std::min(next.size(), room());
  put(0, next.first(ahead_));
  return ahead_;
}

/// Returns how many bytes the reader has accepted, as `terms` say. If `terms` belong to another advert,
/// returns 0.
std::size_t LaneWriter::take(std::uint64_t terms) {
  const std::size_t all = advertised_.size();
  const std::size_t left = terms >> 32 == adverts_ ? std::min<std::size_t>(bytes_of(terms), all) : all;
  advertised_ = advertised_.subspan(all - left);
  if (left != 0) return all - left;
  const std::size_t ahead = std::exchange(ahead_, 0);
  if (ahead != 0) publish(ahead);
  return all + ahead;
}

std::size_t LaneWriter::collect() {
  return is_advertising() ? take(memory_.head->advert.terms.load()) : 0;
}

std::size_t LaneWriter::cancel() {
  if (!is_advertising()) return 0;
  const std::size_t gone = take(memory_.head->advert.terms.exchange(std::uint64_t{adverts_} << 32));
  advertised_ = {};
  return gone;
}

LaneReader::LaneReader(LaneMemory memory, Wake wake) : memory_(std::move(memory)), wake_(wake) {
  memory_.head->advert.is_wanted.store(memory_.peer != nullptr);
}

LaneReader::~LaneReader() {
  memory_.head->left.store(1);
}

std::size_t LaneReader::in_ring() {
  const std::uint64_t count = memory_.head->written.load() - read_;
  is_broken_ = is_broken_ || count > memory_.ring.size();
  return is_broken_ ? 0 : static_cast<std::size_t>(std::min(count, end_ - read_));
}

std::size_t LaneReader::advertised(std::uint64_t terms) const {
  const bool may_read = memory_.peer != nullptr && !has_declined_ && !is_broken_ && end_ == UINT64_MAX;
  return may_read ? bytes_of(terms) : 0;
}

bool LaneReader::has_refused() const {
  if (end_ == UINT64_MAX) return false;
  return memory_.head->written.load() > end_ || bytes_of(memory_.head->advert.terms.load()) != 0;
}

bool LaneReader::has_bytes(const LaneMemory& memory) {
  const LaneAdvert& advert = memory.head->advert;
  return memory.head->written.load() != memory.head->read.load() ||
         (memory.peer != nullptr && advert.is_wanted.load() != 0 && bytes_of(advert.terms.load()) != 0);
}

std::size_t LaneReader::read(std::span<std::byte> out, bool peek) {
  // While the writer advertises, this call rings the writer's bell only if the ring buffer alone fills `out`.
  // Otherwise the caller copies bytes of the advert next.
  const bool may_follow = advertised(memory_.head->advert.terms.load()) != 0;
  std::size_t done = 0;
  std::uint64_t at = read_;
  std::size_t left = std::min(in_ring(), out.size());
  while (left > 0) {
    const auto from = part(memory_.ring, at, std::min(left, kPieceBytes));
    std::memcpy(out.data() + done, from.data(), from.size());
    done += from.size();
    at += from.size();
    left -= from.size();
    if (peek) continue;
    read_ = at;
    memory_.head->read.store(read_);
    if (!may_follow && is_roomy()) ring_bell(memory_.head->writer, wake_);
  }
  if (done == 0 || peek) return done;
  if (std::exchange(has_declined_, false)) memory_.head->advert.is_wanted.store(1);
  if (may_follow && done == out.size() && is_roomy()) ring_bell(memory_.head->writer, wake_);
  return done;
}

std::optional<LentBytes> LaneReader::lent(std::size_t most, std::size_t peeked) {
  const LaneAdvert& advert = memory_.head->advert;
  // The terms must be loaded before the count of the ring buffer. Then the advertised bytes come after the
  // bytes that are in the ring buffer now.
  const std::uint64_t terms = advert.terms.load();
  const std::size_t count = std::min({most, advertised(terms), kMostLent});
  if (count == 0 || in_ring() != peeked) return std::nullopt;
  return LentBytes{.memory = memory_.peer,
                   .address = advert.end.load() - bytes_of(terms),
                   .count = count,
                   .terms = terms,
                   .is_all = count == most};
}

std::size_t LaneReader::settle(const LentBytes& lent, std::size_t count, bool peek) {
  if (count == 0) {
    // No byte could be copied. From now on the writer must send copies, as if the kernel did not permit
    // reading its memory.
    memory_.peer = nullptr;
    decline();
    has_declined_ = false;
    return 0;
  }
  if (advertised(lent.terms) == 0) return 0;  // The bytes were refused meanwhile.
  LaneAdvert& advert = memory_.head->advert;
  count = std::min(count, lent.count);
  std::uint64_t terms = lent.terms;
  const std::uint64_t rest = terms - count;
  // The copied bytes are valid only if the terms are still the same.
  if (peek ? advert.terms.load() != terms : !advert.terms.compare_exchange_strong(terms, rest)) return 0;
  if (!peek && (bytes_of(rest) == 0 || lent.is_all)) ring_bell(memory_.head->writer, wake_);
  return count;
}

void LaneReader::decline() {
  has_declined_ = true;
  memory_.head->advert.is_wanted.store(0);
  ring_bell(memory_.head->writer, wake_);
}

/// True if half of the ring buffer is free. Then it is worth waking a writer that waits for space.
bool LaneReader::is_roomy() const {
  return memory_.head->written.load() - read_ <= memory_.ring.size() / 2;
}

bool LaneReader::take_writer_wants_record() {
  auto& wants = memory_.head->writer.by_record;
  return wants.load() != 0 && is_roomy() && wants.exchange(0) != 0;
}

}  // namespace rdmc::sockets

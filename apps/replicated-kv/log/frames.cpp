#include "apps/replicated-kv/log/frames.hpp"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "dataplane/base/varint.hpp"

namespace rdmc::kv {

namespace {

static_assert(std::endian::native == std::endian::little, "the files have the lowest byte first");

constexpr std::uint64_t kMagic = 0x676F6C766B6D6472;       // "rdmkvlog"
constexpr std::uint32_t kVersion = 1, kMark = 0x4D524652;  // "RFRM"
constexpr std::size_t kReadBytes = 1 << 20;

struct RawFrame {
  std::uint32_t mark = kMark, length = 0;
  std::uint64_t durable = 0, checksum = 0;
};
static_assert(sizeof(RawFrame) == kFrameHeadBytes);

struct RawHead {
  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion, kind = 0;
  std::uint64_t id = 0, epoch = 0, position = 0;
  std::int64_t time = 0;
  std::uint64_t reserved = 0, checksum = 0;
};
static_assert(sizeof(RawHead) == kFileHeadBytes);

std::uint64_t checksum_of(const RawHead& head) {
  return XXH3_64bits(&head, offsetof(RawHead, checksum));
}

std::uint64_t checksum_of(const RawFrame& frame, std::uint64_t id, std::uint64_t offset,
                          std::span<const std::byte> bytes) {
  const std::uint64_t numbers[] = {id, offset, frame.length, frame.durable};
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), XXH3_64bits(numbers, sizeof numbers));
}

}  // namespace

std::vector<std::byte> encode(const FileHead& head) {
  RawHead raw{.kind = static_cast<std::uint32_t>(head.kind),
              .id = head.id,
              .epoch = head.begin.epoch,
              .position = head.begin.position,
              .time = head.begin.time};
  raw.checksum = checksum_of(raw);
  std::vector<std::byte> bytes(sizeof raw);
  std::memcpy(bytes.data(), &raw, sizeof raw);
  return bytes;
}

Result<FileHead> decode_file_head(std::span<const std::byte> bytes) {
  RawHead raw;
  if (bytes.size() < sizeof raw) return fail(Errc::corrupt, "the head at offset 0 is cut off");
  std::memcpy(&raw, bytes.data(), sizeof raw);
  if (raw.magic != kMagic) return fail(Errc::corrupt, "this is no file of rdmc_kv");
  if (raw.version != kVersion)
    return fail(Errc::version_mismatch, "the file has version " + std::to_string(raw.version) +
                                            ", and this program reads version " + std::to_string(kVersion));
  const bool is_known = raw.kind >= 1 && raw.kind <= static_cast<std::uint32_t>(FileKind::copy);
  if (raw.checksum != checksum_of(raw) || !is_known || raw.time < 0)
    return fail(Errc::corrupt, "the head at offset 0 is damaged");
  return FileHead{.kind = static_cast<FileKind>(raw.kind),
                  .id = raw.id,
                  .begin = {.epoch = raw.epoch, .position = raw.position, .time = raw.time}};
}

void put_frame(std::vector<std::byte>& out, const FramePlace& place, std::span<const std::byte> bytes) {
  RawFrame frame{.length = static_cast<std::uint32_t>(bytes.size()), .durable = place.durable};
  frame.checksum = checksum_of(frame, place.id, place.offset, bytes);
  const std::size_t at = out.size();
  out.resize(at + sizeof frame);
  std::memcpy(out.data() + at, &frame, sizeof frame);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

/// Returns the bytes from `offset` that are in memory, but at least `least`, and fewer only at the end of the
/// file.
Result<std::span<const std::byte>> FrameReader::bytes_from(std::uint64_t offset, std::size_t least) {
  const bool has = offset >= buffer_offset_ && offset + least <= buffer_offset_ + buffer_.size();
  if (!has) {
    buffer_.resize(std::max(least, kReadBytes));
    buffer_offset_ = offset;
    const auto got = file_.read(offset, buffer_);
    if (!got) {
      buffer_.clear();
      return std::unexpected(got.error());
    }
    buffer_.resize(*got);
  }
  return std::span<const std::byte>(buffer_).subspan(offset - buffer_offset_);
}

Result<std::span<const std::byte>> FrameReader::bytes_at(std::uint64_t offset, std::size_t count) {
  const auto all = bytes_from(offset, count);
  if (!all) return all;
  return all->first(std::min(count, all->size()));
}

/// Returns nullopt if there is no good frame at the offset.
Result<std::optional<FrameReader::Frame>> FrameReader::frame_at(std::uint64_t offset) {
  const auto head = bytes_at(offset, sizeof(RawFrame));
  if (!head) return std::unexpected(head.error());
  if (head->size() < sizeof(RawFrame)) return std::nullopt;
  RawFrame raw;
  std::memcpy(&raw, head->data(), sizeof raw);
  if (raw.mark != kMark || raw.length > kMostFrameBytes || raw.durable > offset) return std::nullopt;
  const auto bytes = bytes_at(offset + sizeof raw, raw.length);
  if (!bytes) return std::unexpected(bytes.error());
  if (bytes->size() < raw.length || checksum_of(raw, id_, offset, *bytes) != raw.checksum)
    return std::nullopt;
  return Frame{raw.length, raw.durable};
}

Result<std::optional<std::span<const std::byte>>> FrameReader::next() {
  const auto frame = frame_at(offset_);
  if (!frame) return std::unexpected(frame.error());
  if (!*frame) {
    const auto is_damage = is_followed_by_durable();
    if (!is_damage) return std::unexpected(is_damage.error());
    if (*is_damage) return fail(Errc::corrupt, "damaged at offset " + std::to_string(offset_));
    return std::nullopt;
  }
  const auto bytes = bytes_at(offset_ + kFrameHeadBytes, (*frame)->length);
  if (!bytes) return std::unexpected(bytes.error());
  offset_ += kFrameHeadBytes + (*frame)->length;
  return *bytes;
}

/// True if a later frame was written when what is at the present offset was on disk.
Result<bool> FrameReader::is_followed_by_durable() {
  std::array<std::byte, sizeof kMark> mark;
  std::memcpy(mark.data(), &kMark, sizeof kMark);
  for (std::uint64_t at = offset_ + 1;;) {
    const auto part = bytes_from(at, sizeof(RawFrame));
    if (!part) return std::unexpected(part.error());
    if (part->size() < sizeof(RawFrame)) return false;
    const auto found = std::ranges::search(*part, mark);
    if (found.empty()) {
      at += part->size() - sizeof kMark + 1;
      continue;
    }
    at += static_cast<std::uint64_t>(found.begin() - part->begin());
    const auto frame = frame_at(at);
    if (!frame) return std::unexpected(frame.error());
    if (*frame && (*frame)->durable > offset_) return true;
    at += *frame ? kFrameHeadBytes + (*frame)->length : 1;
  }
}

std::vector<std::byte> encode_logged(const OrderedEvent& event) {
  constexpr std::size_t kMostHead = 40;
  std::vector<std::byte> bytes;
  bytes.reserve(kMostHead + event.bytes.size());
  put_varint(bytes, event.position);
  put_varint(bytes, event.epoch);
  put_varint(bytes, event.time);
  put_varint(bytes, event.random);
  bytes.insert(bytes.end(), event.bytes.begin(), event.bytes.end());
  return bytes;
}

std::optional<OrderedEvent> decode_logged(std::span<const std::byte> bytes) {
  VarintReader in(bytes);
  OrderedEvent event;
  event.position = in.number();
  event.epoch = in.number();
  event.time = in.number<std::int64_t>(INT64_MAX);
  event.random = in.number();
  if (!in.is_good()) return std::nullopt;
  event.bytes = in.rest();
  return event;
}

}  // namespace rdmc::kv

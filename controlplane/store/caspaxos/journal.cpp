#include "controlplane/store/caspaxos/journal.hpp"

#include <xxhash.h>

#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <string_view>

namespace rdmc::store {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

constexpr std::string_view kMark = "rdmc-journal-1\n";
constexpr std::uint32_t kFrameMark = 0x4d524652;
/// The number of bytes before the entry in a frame. These bytes contain a mark, the length of the entry, and
/// the number of the frame. The checksum follows after the entry.
constexpr std::size_t kHeadBytes = 16, kChecksumBytes = 8;

template <typename T>
T number_at(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

void append(Bytes& to, const void* from, std::size_t bytes) {
  const std::size_t before = to.size();
  to.resize(before + bytes);
  std::memcpy(to.data() + before, from, bytes);
}

struct Frame {
  std::uint64_t number = 0;
  std::span<const std::byte> entry;
  std::size_t bytes = 0;
};

/// Returns the frame at the beginning of `bytes`. Returns nullopt if the frame is damaged.
std::optional<Frame> frame_at(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeadBytes + kChecksumBytes || number_at<std::uint32_t>(bytes) != kFrameMark)
    return std::nullopt;
  const std::size_t length = number_at<std::uint32_t>(bytes.subspan(4));
  if (length > bytes.size() - kHeadBytes - kChecksumBytes) return std::nullopt;
  const auto summed = bytes.first(kHeadBytes + length);
  if (XXH3_64bits(summed.data(), summed.size()) != number_at<std::uint64_t>(bytes.subspan(summed.size())))
    return std::nullopt;
  return Frame{number_at<std::uint64_t>(bytes.subspan(8)), summed.subspan(kHeadBytes),
               summed.size() + kChecksumBytes};
}

bool has_frame(std::span<const std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (frame_at(bytes.subspan(i))) return true;
  return false;
}

}  // namespace

Bytes Journal::frame(const Acceptor::Write& write) {
  Bytes bytes;
  if (write.whole) {
    number_ = 0;
    append(bytes, kMark.data(), kMark.size());
  }
  const std::size_t begin = bytes.size();
  const auto length = static_cast<std::uint32_t>(write.entry.size());
  ++number_;
  append(bytes, &kFrameMark, sizeof kFrameMark);
  append(bytes, &length, sizeof length);
  append(bytes, &number_, sizeof number_);
  append(bytes, write.entry.data(), write.entry.size());
  const std::uint64_t checksum = XXH3_64bits(bytes.data() + begin, bytes.size() - begin);
  append(bytes, &checksum, sizeof checksum);
  return bytes;
}

Result<Durable> recover(std::span<const std::byte> journal) {
  const auto corrupt = [](std::string why) { return fail(Errc::corrupt, "the journal " + std::move(why)); };
  if (journal.size() < kMark.size() || std::memcmp(journal.data(), kMark.data(), kMark.size()) != 0)
    return corrupt("is none of this program");
  auto rest = journal.subspan(kMark.size());
  Durable kept;
  std::uint64_t number = 0;
  while (!rest.empty()) {
    const auto frame = frame_at(rest);
    if (!frame) break;
    auto entry = decode_journal_entry(frame->entry);
    if (frame->number != ++number || !entry || entry->whole != (number == 1))
      return corrupt("has an entry that does not belong there");
    apply(std::move(*entry), kept);
    rest = rest.subspan(frame->bytes);
  }
  if (number == 0 || !kept.id) return corrupt("has lost its beginning");
  if (!rest.empty() && has_frame(rest.subspan(1))) return corrupt("has lost an entry that was durable");
  return kept;
}

}  // namespace rdmc::store

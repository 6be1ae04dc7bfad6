#include "apps/bcast-cli/received_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

namespace rdmc::bcast {
namespace {

/// The shortest run of zeros that becomes a hole. A shorter run is not worth a separate system call.
constexpr std::size_t kHoleBytes = 16 * 1024;

bool is_zero(std::span<const std::byte> bytes) {
  // This compares the bytes with the same bytes shifted by one. memcmp() compares whole vectors and stops at
  // the first difference.
  return bytes.empty() ||
         (bytes[0] == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace

Result<ReceivedFile> ReceivedFile::create(PartialFile file, FileShape shape, std::uint64_t allocated_bytes) {
  if (auto room = check_space(file.fd(), std::min(shape.size, allocated_bytes), file.path()); !room)
    return std::unexpected(room.error());
  int result = 0;
  do result = ::ftruncate(file.fd(), static_cast<off_t>(shape.size));
  while (result != 0 && errno == EINTR);
  if (result != 0)
    return fail_errno(fmt::format("cannot make {} {} bytes long", file.path(), shape.size), errno);
  return ReceivedFile(std::move(file), shape);
}

std::optional<Digest> ReceivedFile::digest() const {
  if (!held_.is_full() || !hash_.is_complete()) return std::nullopt;
  return hash_.value();
}

Result<void> ReceivedFile::write(std::uint64_t block, std::span<const std::byte> bytes) {
  assert(bytes.size() == shape_.bytes(block));
  if (held_.contains(block)) return {};
  const auto offset = shape_.offset(block);
  std::size_t begin = 0;  // the beginning of the run to write
  for (std::size_t at = 0; at < bytes.size();) {
    const auto piece = std::min(kHoleBytes, bytes.size() - at);
    if (is_zero(bytes.subspan(at, piece))) {
      if (auto done = write_at(file_.fd(), bytes.subspan(begin, at - begin), offset + begin, path()); !done)
        return done;
      begin = at + piece;
    }
    at += piece;
  }
  if (auto done = write_at(file_.fd(), bytes.subspan(begin), offset + begin, path()); !done) return done;
  held_.insert(block);
  return {};
}

Result<std::optional<Digest>> ReceivedFile::whole_digest() {
  if (!held_.is_full()) return std::nullopt;
  if (auto done = hash_held_prefix(); !done) return std::unexpected(done.error());
  return digest();
}

Result<Descriptor> ReceivedFile::duplicate() const {
  Descriptor copy(::fcntl(file_.fd(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return fail_errno(fmt::format("cannot read {}", path()), errno);
  return copy;
}

Result<void> ReceivedFile::hash(std::uint64_t block, std::span<const std::byte> bytes) {
  const auto ranges = held_.ranges();
  if (ranges.empty() || ranges.front().begin > 0 || ranges.front().end <= block) return {};
  return hash_.add(block, bytes, file_.fd(), path());
}

Result<void> ReceivedFile::hash_held_prefix() {
  const auto ranges = held_.ranges();
  if (ranges.empty() || ranges.front().begin > 0) return {};
  return hash_.catch_up(ranges.front().end, file_.fd(), path());
}

}  // namespace rdmc::bcast

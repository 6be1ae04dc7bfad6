#include "apps/bcast-cli/file_digest.hpp"

#include <fmt/format.h>

#include <cassert>
#include <cstring>
#include <new>
#include <vector>

#include "apps/bcast-cli/file_io.hpp"

namespace rdmc::bcast {
namespace {
constexpr std::size_t kReadAgain = 256 * 1024;
}

std::string to_hex(const Digest& digest) {
  std::string text;
  for (const auto byte : digest) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

FileDigest::FileDigest(FileShape shape) : shape_(shape), state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_128bits_reset(state_.get());
}

Result<void> FileDigest::add(std::uint64_t block, std::span<const std::byte> bytes, int fd,
                             std::string_view name) {
  assert(block < shape_.blocks() && bytes.size() == shape_.bytes(block));
  if (block < next_) return {};
  if (auto done = catch_up(block, fd, name); !done) return done;
  XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
  ++next_;
  return {};
}

Result<void> FileDigest::catch_up(std::uint64_t block, int fd, std::string_view name) {
  assert(block <= shape_.blocks());
  if (block <= next_) return {};
  std::vector<std::byte> buffer(kReadAgain);
  for (; next_ < block; ++next_) {
    const std::uint64_t begin = shape_.offset(next_);
    const std::uint64_t end = begin + shape_.bytes(next_);
    for (auto at = begin; at < end;) {
      const auto piece = std::span(buffer).first(std::min<std::uint64_t>(kReadAgain, end - at));
      const auto count = read_at(fd, piece, at, name);
      if (!count) return std::unexpected(count.error());
      if (*count < piece.size()) return fail(Errc::io_error, fmt::format("{} has become shorter", name));
      XXH3_128bits_update(state_.get(), piece.data(), piece.size());
      at += piece.size();
    }
  }
  return {};
}

Digest FileDigest::value() const {
  assert(is_complete());
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_.get()));
  Digest digest;
  static_assert(sizeof canonical.digest == sizeof digest);
  std::memcpy(digest.data(), canonical.digest, sizeof digest);
  return digest;
}

}  // namespace rdmc::bcast

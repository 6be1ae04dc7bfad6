#include "apps/replicated-kv/log/copier.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace rdmc::kv {

namespace {

constexpr std::size_t kPieceBytes = 1 << 20;

/// Writes the file. Returns 0 or an errno.
int write_copy(int file, const FileHead& head, const Copier::Save& save) {
  std::uint64_t offset = 0;
  int error = 0;
  const auto write = [&](std::span<const std::byte> bytes) {
    while (error == 0 && !bytes.empty()) {
      const ssize_t count = ::write(file, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        error = count == 0 ? ENOSPC : errno;
        return;
      }
      bytes = bytes.subspan(static_cast<std::size_t>(count));
      offset += static_cast<std::uint64_t>(count);
    }
  };
  std::vector<std::byte> gathered;
  const auto put_gathered = [&] {
    std::vector<std::byte> frame;
    put_frame(frame, {.id = head.id, .offset = offset}, gathered);
    write(frame);
    gathered.clear();
  };
  write(encode(head));
  save([&](std::vector<std::byte> piece) {
    for (std::span<const std::byte> rest = piece; !rest.empty() && error == 0;) {
      const auto part = rest.first(std::min(rest.size(), kPieceBytes - gathered.size()));
      gathered.insert(gathered.end(), part.begin(), part.end());
      rest = rest.subspan(part.size());
      if (gathered.size() == kPieceBytes) put_gathered();
    }
  });
  if (!gathered.empty()) put_gathered();
  put_gathered();  // An empty frame is the end.
  if (error == 0 && ::fdatasync(file) != 0) error = errno;
  return error;
}

}  // namespace

Result<void> Copier::begin(Descriptor file, const FileHead& head, const Save& save) {
  auto begun = child_.begin(file.get(), [&](int kept) { return write_copy(kept, head, save); });
  if (!begun)
    return fail(begun.error().code, "no process can be made for a copy of the state: " + begun.error().what);
  file_ = std::move(file);
  return {};
}

std::optional<Result<std::uint64_t>> Copier::finished() {
  const auto finished = child_.finished();
  if (!finished) return std::nullopt;
  const Descriptor file = std::exchange(file_, Descriptor());
  if (!*finished)
    return fail(finished->error().code, "a copy of the state cannot be written: " + finished->error().what);
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) return fail_errno("a copy of the state", errno);
  return static_cast<std::uint64_t>(about.st_size);
}

void Copier::stop() {
  child_.stop();
  file_.reset();
}

}  // namespace rdmc::kv

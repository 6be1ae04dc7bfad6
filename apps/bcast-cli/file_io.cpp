#include "apps/bcast-cli/file_io.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>

namespace rdmc::bcast {

Result<std::size_t> read_at(int fd, std::span<std::byte> into, std::uint64_t offset, std::string_view name) {
  std::size_t done = 0;
  while (done < into.size()) {
    const auto n = ::pread(fd, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (n == 0) break;
    if (n > 0)
      done += static_cast<std::size_t>(n);
    else if (errno != EINTR)
      return fail_errno(fmt::format("cannot read {}", name), errno);
  }
  return done;
}

Result<void> write_at(int fd, std::span<const std::byte> bytes, std::uint64_t offset, std::string_view name) {
  while (!bytes.empty()) {
    const auto n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(n));
      offset += static_cast<std::size_t>(n);
    } else if (errno != EINTR) {
      return fail_errno(fmt::format("cannot write {}", name), errno);
    }
  }
  return {};
}

Result<std::string> read_small_file(const std::string& path, std::size_t limit) {
  Descriptor opened;
  int fd = STDIN_FILENO;
  if (path != "-") {
    opened = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!opened) return fail_errno(fmt::format("cannot open {}", path), errno);
    fd = opened.get();
  }
  std::string text;
  while (text.size() <= limit) {
    char piece[4096];
    const auto n = ::read(fd, piece, sizeof piece);
    if (n == 0) return text;
    if (n > 0)
      text.append(piece, static_cast<std::size_t>(n));
    else if (errno != EINTR)
      return fail_errno(fmt::format("cannot read {}", path), errno);
  }
  return fail(Errc::invalid_argument, fmt::format("{} is longer than {} bytes", path, limit));
}

}  // namespace rdmc::bcast

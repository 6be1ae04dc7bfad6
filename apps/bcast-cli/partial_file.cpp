#include "apps/bcast-cli/partial_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>

namespace rdmc::bcast {
namespace {

constexpr mode_t kPartialMode = 0600;
constexpr int kMaxClaims = 64;  // An attempt fails only if another transfer was faster.

/// True if the name still refers to the open file `fd`.
bool names_open_file(int directory, const std::string& name, int fd) {
  struct stat named {};
  struct stat open {};
  return ::fstatat(directory, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 && ::fstat(fd, &open) == 0 &&
         named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

int sync(int fd) {
  int result = 0;
  do result = ::fsync(fd);
  while (result != 0 && errno == EINTR);
  return result;
}

std::unexpected<Error> appeared(const std::string& path) {
  return fail(Errc::already_exists, fmt::format("{} has appeared during the transfer", path));
}

}  // namespace

Result<PartialFile> PartialFile::claim(Destination placement, bool overwrite, mode_t mode) {
  const int directory = placement.directory.get();
  const auto limit = ::fpathconf(directory, _PC_NAME_MAX);
  const auto name = partial_name(placement.name, limit > 0 ? static_cast<std::size_t>(limit) : 255);
  const auto cannot = [&](const char* what) {
    return fail_errno(fmt::format("cannot {} the partial file of {}", what, placement.path), errno);
  };
  for (int i = 0; i < kMaxClaims; ++i) {
    Descriptor file(
        ::openat(directory, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kPartialMode));
    if (file) {
      // Between the two calls, another transfer may have removed this file, because it looked like a file of
      // a dead transfer.
      if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0 && names_open_file(directory, name, file.get()))
        return PartialFile(std::move(placement), std::move(file), name, overwrite, mode);
      continue;
    }
    if (errno != EEXIST) return cannot("make");
    file = Descriptor(::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file && errno == ENOENT) continue;
    if (!file) return cannot("take over");
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK)
        return fail(Errc::already_exists, fmt::format("{} is in use by another transfer", placement.path));
      return cannot("lock");
    }
    if (!names_open_file(directory, name, file.get())) continue;
    if (::unlinkat(directory, name.c_str(), 0) != 0 && errno != ENOENT) return cannot("remove");
  }
  return fail(Errc::already_exists, fmt::format("{} is in use by other transfers", placement.path));
}

PartialFile::~PartialFile() {
  if (file_ && !committed_) remove_partial();
}

void PartialFile::remove_partial() const {
  if (names_open_file(directory(), temporary_, fd())) ::unlinkat(directory(), temporary_.c_str(), 0);
}

/// Sets the permissions. Some file systems keep no permissions (FAT), or let only certain users of a server
/// set them. The copy then has the permissions that the file system gives it. These are fewer than requested,
/// or nobody can change them.
Result<void> PartialFile::give_permissions() const {
  if (::fchmod(fd(), mode_) == 0 || errno == EPERM || errno == EOPNOTSUPP) return {};
  return fail_errno(fmt::format("cannot set the mode of {}", path()), errno);
}

Result<void> PartialFile::rename(unsigned flags) const {
  if (!names_open_file(directory(), temporary_, fd()))
    return fail(Errc::not_found,
                fmt::format("the partial file of {} was removed during the transfer", path()));
  const auto* const name = placement_.name.c_str();
  if (::renameat2(directory(), temporary_.c_str(), directory(), name, flags) != 0)
    return errno == EEXIST ? appeared(path()) : fail_errno(fmt::format("cannot name {}", path()), errno);
  if (!names_open_file(directory(), placement_.name, fd()))  // Another process has replaced the file.
    return fail(Errc::already_exists, fmt::format("another file stands at {} after the transfer", path()));
  return {};
}

/// Gives the file its final name by a link to the descriptor. Such a link names exactly this file, even if
/// the old name belongs to another file now, and it replaces no other file. rename(2) is used if /proc is
/// missing or if the file system allows only one name for a file.
Result<void> PartialFile::give_final_name() const {
  if (overwrite_) return rename(0);
  const auto open = fmt::format("/proc/self/fd/{}", fd());
  if (::linkat(AT_FDCWD, open.c_str(), directory(), placement_.name.c_str(), AT_SYMLINK_FOLLOW) != 0)
    return errno == EEXIST ? appeared(path()) : rename(RENAME_NOREPLACE);
  remove_partial();  // If this fails, the next transfer of this name removes the file.
  return {};
}

Result<void> PartialFile::commit() {
  if (auto given = give_permissions(); !given) return given;
  if (sync(fd()) != 0) return fail_errno(fmt::format("cannot write {}", path()), errno);
  if (auto named = give_final_name(); !named) return named;
  committed_ = true;
  // Some file systems cannot sync a directory and return EINVAL. The file itself is already synced.
  if (sync(directory()) != 0 && errno != EINVAL)
    return fail_errno(fmt::format("{} is in place, but its directory cannot be synced", path()), errno);
  return {};
}

}  // namespace rdmc::bcast

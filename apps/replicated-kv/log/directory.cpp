#include "apps/replicated-kv/log/directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>

namespace rdmc::kv {

namespace {

constexpr mode_t kOwnerOnly = 0600;

}  // namespace

Result<Directory> Directory::open(const std::string& path) {
  std::error_code error;
  if (std::filesystem::create_directories(path, error))
    std::filesystem::permissions(path, std::filesystem::perms::owner_all, error);
  if (error) return fail_errno(path + " cannot be made", error.value());
  Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return fail_errno(path, errno);
  Descriptor lock(::openat(directory.get(), "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kOwnerOnly));
  if (!lock) return fail_errno(path + "/lock", errno);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return errno == EWOULDBLOCK ? fail(Errc::already_exists, path + " is in use by another server")
                                : fail_errno(path + "/lock", errno);
  return Directory(path, std::move(directory), std::move(lock));
}

Result<std::map<std::uint64_t, std::string>> Directory::list(const std::string& kind) const {
  std::map<std::uint64_t, std::string> found;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(path_, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!name.starts_with(kind + "-")) continue;
    const char* const first = name.data() + kind.size() + 1;
    const char* const last = name.data() + name.size();
    std::uint64_t number = 0;
    const auto read = std::from_chars(first, last, number);
    if (read.ec == std::errc() && read.ptr == last) found[number] = name;
  }
  if (error) return fail_errno(path_, error.value());
  return found;
}

Result<Descriptor> Directory::create(const std::string& name) const {
  Descriptor file(::openat(directory_.get(), name.c_str(),
                           O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kOwnerOnly));
  if (!file) return fail_errno(path_ + "/" + name, errno);
  return file;
}

Result<Descriptor> Directory::open_file(const std::string& name) const {
  Descriptor file(::openat(directory_.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) return fail_errno(path_ + "/" + name, errno);
  return file;
}

Result<void> Directory::rename(const std::string& from, const std::string& to) const {
  if (::renameat(directory_.get(), from.c_str(), directory_.get(), to.c_str()) != 0)
    return fail_errno(path_ + "/" + to, errno);
  return sync();
}

Result<void> Directory::sync() const {
  if (::fsync(directory_.get()) != 0) return fail_errno(path_, errno);
  return {};
}

void Directory::remove(const std::string& name) const {
  ::unlinkat(directory_.get(), name.c_str(), 0);
}

}  // namespace rdmc::kv

#include "apps/bcast-cli/receive_directory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

namespace rdmc::bcast {
namespace {

constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
constexpr int kMaxRaces = 16;  // openat2() fails with EAGAIN if a rename happened during the resolution.

int open_in_kernel(int directory, const char* path) {
  open_how how{};
  how.flags = kDirectoryFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  int fd = -1;
  for (int i = 0; i < kMaxRaces && fd < 0; ++i) {
    fd = static_cast<int>(::syscall(SYS_openat2, directory, path, &how, sizeof how));
    if (fd < 0 && errno != EAGAIN && errno != EINTR) break;
  }
  return fd;
}

}  // namespace

Result<std::vector<std::string>> split_relative(std::string_view path) {
  if (path.starts_with('/'))
    return fail(Errc::invalid_argument,
                fmt::format("the destination {} is absolute: it is under the agent's root", path));
  if (path.find('\0') != std::string_view::npos)
    return fail(Errc::invalid_argument, "the destination contains a NUL byte");
  std::vector<std::string> components;
  for (std::size_t begin = 0; begin < path.size();) {
    const auto end = std::min(path.find('/', begin), path.size());
    const auto component = path.substr(begin, end - begin);
    begin = end + 1;
    if (component.empty() || component == ".") continue;
    if (component == "..")
      return fail(Errc::invalid_argument, fmt::format("the destination {} contains '..'", path));
    components.emplace_back(component);
  }
  return components;
}

Result<ReceiveDirectory> ReceiveDirectory::open(const std::string& path, Missing missing,
                                                Confinement confinement) {
  if (missing == Missing::make) {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) return fail_errno(fmt::format("cannot make the directory {}", path), error.value());
  }
  Descriptor directory(::open(path.c_str(), kDirectoryFlags));
  if (!directory) return fail_errno(fmt::format("cannot open the directory {}", path), errno);
  if (::faccessat(directory.get(), ".", W_OK | X_OK, AT_EACCESS) != 0)
    return fail_errno(fmt::format("cannot write in the directory {}", path), errno);
  return ReceiveDirectory(path, std::move(directory), confinement);
}

Result<ReceiveDirectory> ReceiveDirectory::open(const std::string& path, Missing missing) {
  auto opened = open(path, missing, Confinement::beneath);
  if (!opened) return opened;
  const Descriptor probe(open_in_kernel(opened->directory_.get(), "."));
  // openat2() is missing before Linux 5.6, and a seccomp filter can forbid it.
  if (!probe) opened->confinement_ = Confinement::walk;
  return opened;
}

int ReceiveDirectory::open_beneath(const std::string& joined, int parent, const std::string& last) const {
  if (confinement_ == Confinement::beneath) return open_in_kernel(directory_.get(), joined.c_str());
  return ::openat(parent, last.c_str(), kDirectoryFlags | O_NOFOLLOW);
}

Result<Descriptor> ReceiveDirectory::open_directory(const std::vector<std::string>& components,
                                                    Missing missing) const {
  Descriptor at(::openat(directory_.get(), ".", kDirectoryFlags));
  if (!at) return fail_errno(fmt::format("cannot open the directory {}", path_), errno);
  std::string joined;
  for (const auto& component : components) {
    if (!joined.empty()) joined += '/';
    joined += component;
    int fd = open_beneath(joined, at.get(), component);
    if (fd < 0 && errno == ENOENT && missing == Missing::make) {
      if (::mkdirat(at.get(), component.c_str(), 0777) != 0 && errno != EEXIST)
        return fail_errno(fmt::format("cannot make the directory {}/{}", path_, joined), errno);
      fd = open_beneath(joined, at.get(), component);
    }
    if (fd < 0) {
      const int error = errno;
      struct stat status {};
      if (confinement_ == Confinement::walk &&
          ::fstatat(at.get(), component.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
          S_ISLNK(status.st_mode))
        return fail(Errc::permission_denied, fmt::format("{}/{} is a symbolic link", path_, joined));
      if (error == EXDEV)
        return fail(Errc::permission_denied,
                    fmt::format("{}/{} leads out of the agent's root", path_, joined));
      if (error == ENOTDIR)
        return fail(Errc::invalid_argument, fmt::format("{}/{}: Not a directory", path_, joined));
      return fail_errno(fmt::format("cannot open the directory {}/{}", path_, joined), error);
    }
    at = Descriptor(fd);
  }
  return at;
}

}  // namespace rdmc::bcast

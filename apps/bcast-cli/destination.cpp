#include "apps/bcast-cli/destination.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>

#include "apps/units/units.hpp"

namespace rdmc::bcast {
namespace {

constexpr std::string_view kPartialSuffix = ".rdmc-partial";
constexpr std::size_t kUsualNameMax = 255;  // The value if the file system reports no limit.

std::size_t name_max(int directory) {
  const auto limit = ::fpathconf(directory, _PC_NAME_MAX);
  return limit > 0 ? static_cast<std::size_t>(limit) : kUsualNameMax;
}

Result<void> check_name(std::string_view name, std::string_view whose) {
  if (name.empty() || name == "." || name == ".." ||
      name.find_first_of(std::string_view("/\0", 2)) != name.npos)
    return fail(Errc::invalid_argument, fmt::format("{} '{}' is not a file's name", whose, name));
  if (name.starts_with('.') && name.ends_with(kPartialSuffix))
    return fail(Errc::invalid_argument,
                fmt::format("{} '{}' has a name kept for files in transfer", whose, name));
  return {};
}

/// The parts of DEST: the directories of the path, and the copy's name in the last one.
struct Split {
  std::vector<std::string> directories;
  std::string name;
};

bool names_directory(std::string_view destination) {
  return destination.empty() || destination.ends_with('/') || destination == "." ||
         destination.ends_with("/.");
}

Result<Split> split(const ReceiveDirectory& receive_directory, const DestinationRequest& request) {
  auto components = split_relative(request.destination);
  if (!components) return std::unexpected(components.error());
  Split result{std::move(*components), request.source_name};
  if (names_directory(request.destination) || result.directories.empty()) {
    if (auto fine = check_name(result.name, "the source"); !fine) return std::unexpected(fine.error());
    return result;
  }
  const auto standing =
      receive_directory.open_directory(result.directories, ReceiveDirectory::Missing::refuse);
  if (!standing && standing.error().code != Errc::not_found &&
      standing.error().code != Errc::invalid_argument)
    return std::unexpected(standing.error());
  if (!standing) {
    result.name = std::move(result.directories.back());
    result.directories.pop_back();
  }
  if (auto fine = check_name(result.name, standing ? "the source" : "the destination"); !fine)
    return std::unexpected(fine.error());
  return result;
}

Result<void> check_taken(int directory, const Split& split, const std::string& path, bool overwrite) {
  if (split.name.size() > name_max(directory))
    return fail(Errc::invalid_argument, fmt::format("the name of {} is too long for its file system", path));
  struct stat status {};
  if (::fstatat(directory, split.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return {};
    return fail_errno(fmt::format("cannot look at {}", path), errno);
  }
  if (S_ISDIR(status.st_mode)) return fail(Errc::invalid_argument, fmt::format("{} is a directory", path));
  if (!overwrite) return fail(Errc::already_exists, fmt::format("{} exists (--overwrite replaces it)", path));
  if (!S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode))
    return fail(Errc::invalid_argument, fmt::format("{} is not a regular file", path));
  return {};
}

std::string shown_path(const ReceiveDirectory& receive_directory, const Split& split) {
  std::string path = receive_directory.path();
  for (const auto& directory : split.directories)
    path += fmt::format("{}{}", path.ends_with('/') ? "" : "/", directory);
  return fmt::format("{}{}{}", path, path.ends_with('/') ? "" : "/", split.name);
}

}  // namespace

Result<Destination> resolve_destination(const ReceiveDirectory& receive_directory,
                                        const DestinationRequest& request) {
  auto where = split(receive_directory, request);
  if (!where) return std::unexpected(where.error());
  auto directory = receive_directory.open_directory(where->directories, ReceiveDirectory::Missing::make);
  if (!directory) return std::unexpected(directory.error());
  auto path = shown_path(receive_directory, *where);
  if (auto fine = check_taken(directory->get(), *where, path, request.overwrite); !fine)
    return std::unexpected(fine.error());
  return Destination{std::move(*directory), std::move(where->name), std::move(path)};
}

Result<void> check_space(int directory, std::uint64_t bytes, std::string_view path) {
  struct statvfs disk {};
  if (::fstatvfs(directory, &disk) != 0 || disk.f_blocks == 0 || disk.f_frsize == 0) return {};
  const std::uint64_t free_bytes = disk.f_bavail * disk.f_frsize;
  if (free_bytes >= bytes) return {};
  return fail(Errc::no_space, fmt::format("no space for {}: {} are needed, and {} are free", path,
                                          size_words(bytes), size_words(free_bytes)));
}

Result<void> check_takes_files(int directory, std::uint64_t bytes, std::string_view path) {
  const auto cannot = [&](int error) {
    return fail_errno(fmt::format("cannot write in the directory of {}", path), error);
  };
  if (::faccessat(directory, ".", W_OK | X_OK, AT_EACCESS) != 0) return cannot(errno);
  // Opening a file without a name shows problems that permissions do not show, for example a quota. It also
  // fails on file systems such as /proc, which have no blocks. Some file systems that accept files cannot
  // open a file without a name.
  const Descriptor nameless(::openat(directory, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  const int error = nameless ? 0 : errno;
  struct statvfs disk {};
  const bool holds_blocks = ::fstatvfs(directory, &disk) == 0 && disk.f_blocks > 0;
  const bool unknown = error == EOPNOTSUPP || error == EISDIR || error == EINVAL || error == ENOENT;
  if (error != 0 && !(unknown && holds_blocks)) return cannot(error);
  return check_space(directory, bytes, path);
}

Result<std::string> foresee(const ReceiveDirectory& receive_directory, const DestinationRequest& request,
                            std::uint64_t bytes) {
  auto where = split(receive_directory, request);
  if (!where) return std::unexpected(where.error());
  const auto path = shown_path(receive_directory, *where);
  // resolve_destination() would make missing parents. The nearest existing parent shows whether this would
  // succeed.
  for (auto standing = where->directories;; standing.pop_back()) {
    const auto directory = receive_directory.open_directory(standing, ReceiveDirectory::Missing::refuse);
    if (directory && standing.size() == where->directories.size()) {
      if (auto fine = check_taken(directory->get(), *where, path, request.overwrite); !fine)
        return std::unexpected(fine.error());
    }
    if (directory) {
      if (auto fine = check_takes_files(directory->get(), bytes, path); !fine)
        return std::unexpected(fine.error());
      return path;
    }
    if (standing.empty() || directory.error().code != Errc::not_found)
      return std::unexpected(directory.error());
  }
}

std::string_view base_name(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string partial_name(std::string_view name, std::size_t name_max) {
  auto whole = fmt::format(".{}{}", name, kPartialSuffix);
  if (whole.size() <= name_max) return whole;
  const auto end = fmt::format("~{:016x}{}", XXH3_64bits(name.data(), name.size()), kPartialSuffix);
  auto kept = name_max > end.size() + 1 ? name_max - end.size() - 1 : 0;
  kept = std::min(kept, name.size());
  // The name is not cut inside a UTF-8 sequence, because some file systems refuse names that are not valid
  // UTF-8.
  while (kept > 0 && kept < name.size() && (static_cast<unsigned char>(name[kept]) & 0xC0) == 0x80) --kept;
  return fmt::format(".{}{}", name.substr(0, kept), end);
}

}  // namespace rdmc::bcast

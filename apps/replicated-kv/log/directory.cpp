#include "apps/replicated-kv/log/directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>

#include "apps/replicated-kv/log/forked_child.hpp"

namespace rdmc::kv {

namespace {

constexpr mode_t kOwnerOnly = 0600;

Result<std::vector<std::string>> read_names(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(path, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    names.push_back(entry->path().filename());
  if (error) return fail_errno(path, error.value());
  return names;
}

/// Makes the directory, and those above it, if it does not exist. After this, a loss of power does not remove
/// them.
Result<void> make_directory(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> above;  // of the directories that do not exist
  std::error_code error;
  for (auto missing = std::filesystem::absolute(path, error).lexically_normal();
       !error && !std::filesystem::exists(missing, error) && missing.has_relative_path();
       missing = missing.parent_path())
    above.push_back(missing.parent_path());
  if (!error && std::filesystem::create_directories(path, error))
    std::filesystem::permissions(path, std::filesystem::perms::owner_all, error);
  if (error) return fail_errno(path.native() + " cannot be made", error.value());
  for (const auto& parent : above) {
    const Descriptor directory(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory || ::fsync(directory.get()) != 0) return fail_errno(parent.native(), errno);
  }
  return {};
}

/// Returns the number of a file with the name `kind`-NUMBER.
std::optional<std::uint64_t> number_of(std::string_view name, std::string_view kind) {
  if (!name.starts_with(kind) || !name.substr(kind.size()).starts_with('-')) return std::nullopt;
  const char* const last = name.data() + name.size();
  std::uint64_t number = 0;
  const auto read = std::from_chars(name.data() + kind.size() + 1, last, number);
  if (read.ec != std::errc() || read.ptr != last) return std::nullopt;
  return number;
}

}  // namespace

Result<Directory> Directory::open(const std::string& path) {
  if (auto made = make_directory(path); !made) return std::unexpected(made.error());
  Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return fail_errno(path, errno);
  Descriptor lock(::openat(directory.get(), "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kOwnerOnly));
  if (!lock) return fail_errno(path + "/lock", errno);
  const auto take = [&] { return ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0 ? 0 : errno; };
  if (const int error = outlast_child(EWOULDBLOCK, take); error != 0)
    return error == EWOULDBLOCK ? fail(Errc::already_exists, path + " is in use by another server")
                                : fail_errno(path + "/lock", error);
  return Directory(path, std::move(directory), std::move(lock));
}

Result<std::map<std::uint64_t, std::string>> Directory::list(const std::string& kind) const {
  const auto names = read_names(path_);
  if (!names) return std::unexpected(names.error());
  std::map<std::uint64_t, std::string> found;
  for (const std::string& name : *names)
    if (const auto number = number_of(name, kind)) found[*number] = name;
  return found;
}

Result<std::vector<std::string>> Directory::find_foreign_files(
    std::span<const std::string_view> kinds, std::span<const std::string_view> known) const {
  const auto names = read_names(path_);
  if (!names) return std::unexpected(names.error());
  std::vector<std::string> foreign_files;
  for (const std::string& name : *names) {
    const bool is_known =
        name == "lock" || name == "lost+found" || std::ranges::find(known, name) != known.end() ||
        std::ranges::any_of(kinds, [&](auto kind) { return number_of(name, kind).has_value(); });
    if (is_known || name.starts_with('.')) continue;
    if (std::ranges::any_of(kinds, [&](auto kind) { return name.starts_with(kind); }))
      return fail(Errc::invalid_argument,
                  path_ + "/" + name +
                      ": a server has no file with this name. If it is a copy of the data, its name must be "
                      "copy-NUMBER. Otherwise it must be moved away");
    foreign_files.push_back(name);
  }
  return foreign_files;
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

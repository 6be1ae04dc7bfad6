#include "controlplane/store/journal_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

namespace rdmc::store {
namespace {

constexpr const char* kName = "journal";
constexpr const char* kNewName = "journal.new";
constexpr const char* kLockName = "lock";
constexpr mode_t kOwnerOnly = 0600;

template <typename Call>
auto retried(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

Result<void> write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = retried([&] { return ::write(file, bytes.data(), bytes.size()); });
    if (written < 0) return fail_errno("the journal cannot be written", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  // fdatasync also makes the new length of the file durable.
  if (retried([&] { return ::fdatasync(file); }) != 0)
    return fail_errno("the disk refuses the journal", errno);
  return {};
}

}  // namespace

Result<JournalFile> JournalFile::open(const std::string& directory) {
  std::error_code error;
  if (std::filesystem::create_directories(directory, error))
    std::filesystem::permissions(directory, std::filesystem::perms::owner_all, error);
  if (error) return fail_errno(directory + " cannot be made", error.value());
  Descriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return fail_errno(directory, errno);
  Descriptor lock(::openat(opened.get(), kLockName, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kOwnerOnly));
  if (!lock) return fail_errno(directory + "/" + kLockName, errno);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return errno == EWOULDBLOCK ? fail(Errc::already_exists, directory + " is in use by another node")
                                : fail_errno(directory + "/" + kLockName, errno);
  JournalFile file(directory, std::move(opened), std::move(lock));
  if (auto read = file.read(); !read) return std::unexpected(read.error());
  return file;
}

Result<void> JournalFile::read() {
  const Descriptor file(::openat(directory_.get(), kName, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file && errno == ENOENT) return {};
  struct stat about {};
  if (!file || ::fstat(file.get(), &about) != 0) return fail_errno(path_ + "/" + kName, errno);
  Bytes bytes(static_cast<std::size_t>(about.st_size));
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t got = retried([&] { return ::read(file.get(), bytes.data() + at, bytes.size() - at); });
    if (got < 0) return fail_errno(path_ + "/" + kName, errno);
    if (got == 0) bytes.resize(at);
    at += static_cast<std::size_t>(got);
  }
  auto recovered = recover(bytes);
  if (!recovered)
    return fail(Errc::corrupt, path_ + ": " + recovered.error().what +
                                   "; with an empty directory the node comes back as a new one");
  recovered_ = std::move(*recovered);
  return {};
}

Result<void> JournalFile::write(const Acceptor::Write& write) {
  const Bytes frame = journal_.frame(write);
  if (write.whole) return replace(frame);
  if (!file_) return fail(Errc::invalid_argument, "the first entry of a journal is a whole one");
  return write_all(file_.get(), frame);
}

Result<void> JournalFile::replace(const Bytes& journal) {
  Descriptor file(::openat(directory_.get(), kNewName,
                           O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, kOwnerOnly));
  if (!file) return fail_errno(path_ + "/" + kNewName, errno);
  if (auto written = write_all(file.get(), journal); !written) return written;
  if (::renameat(directory_.get(), kNewName, directory_.get(), kName) != 0 ||
      retried([&] { return ::fsync(directory_.get()); }) != 0)
    return fail_errno(path_ + "/" + kName, errno);
  file_ = std::move(file);
  return {};
}

}  // namespace rdmc::store

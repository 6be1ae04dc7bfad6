#include "apps/replicated-kv/server/access_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "apps/replicated-kv/access/password.hpp"
#include "dataplane/base/descriptor.hpp"

namespace rdmc::kv {

namespace {

constexpr std::size_t kMostAclFileBytes = 16 << 20, kMostPasswordBytes = 4096;

struct FileContent {
  std::string bytes;
  mode_t mode;
};

Result<FileContent> read_access_file(const std::string& path, std::size_t most) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) return fail_errno(path, errno);
  if (!S_ISREG(status.st_mode)) return fail(Errc::invalid_argument, path + ": this is not a file");
  FileContent content{.bytes = {}, .mode = status.st_mode};
  std::array<char, 4096> piece;
  for (;;) {
    const ssize_t got = ::read(fd.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(path, errno);
    if (got == 0) return content;
    content.bytes.append(piece.data(), static_cast<std::size_t>(got));
    if (content.bytes.size() > most)
      return fail(Errc::resource_limit,
                  path + ": the file may have at most " + std::to_string(most) + " bytes");
  }
}

Result<void> write_synced(const std::string& path, std::string_view content, mode_t mode) {
  const Descriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd || ::fchmod(fd.get(), mode & 07777) != 0) return fail_errno(path, errno);
  while (!content.empty()) {
    const ssize_t written = ::write(fd.get(), content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail_errno(path, errno);
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::fsync(fd.get()) != 0) return fail_errno(path, errno);
  return {};
}

}  // namespace

Result<std::string> read_password(const std::string& path) {
  auto content = read_access_file(path, kMostPasswordBytes);
  if (!content) return std::unexpected(content.error());
  if ((content->mode & 077) != 0)
    return fail(Errc::permission_denied, path + ": only its owner may have access to the file (mode 0600)");
  std::string& password = content->bytes;
  if (password.ends_with('\n')) password.pop_back();
  if (password.empty()) return fail(Errc::invalid_argument, path + ": there is no password in the file");
  return std::move(password);
}

Result<std::string> StoredAclFile::read() {
  auto content = read_access_file(path_, kMostAclFileBytes);
  if (!content) return std::unexpected(content.error());
  return std::move(content->bytes);
}

Result<void> StoredAclFile::write(std::string_view content) {
  struct stat status {};
  const mode_t mode = ::stat(path_.c_str(), &status) == 0 ? status.st_mode : 0600;
  const std::string partial = path_ + ".partial";
  if (auto written = write_synced(partial, content, mode); !written) {
    ::unlink(partial.c_str());
    return written;
  }
  if (::rename(partial.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::unlink(partial.c_str());
    return fail_errno(path_, error);
  }
  return {};
}

Result<Users> first_users(const ServeOptions& options, AclFile* file, const Users& others) {
  Users users;
  if (file != nullptr) {
    const auto content = file->read();
    if (!content) return fail(content.error().code, "--acl-file: " + content.error().what);
    auto parsed = parse_acl_file(*content, file->name(), false);
    if (!parsed) return fail(Errc::invalid_argument, "--acl-file: " + parsed.error());
    return std::move(*parsed);
  }
  users.replace(others);
  users.permit_new_users_all_channels(others.permits_new_users_all_channels());
  if (options.requirepass_file.empty()) return users;
  const auto password = read_password(options.requirepass_file);
  if (!password) return fail(password.error().code, "--requirepass-file: " + password.error().what);
  const std::string rule = "#" + digest_of(*password);
  const auto set = users.set(Users::kDefault, std::to_array<std::string_view>({"resetpass", rule}));
  if (!set) return fail(Errc::invalid_argument, "--requirepass-file: " + set.error());
  return users;
}

}  // namespace rdmc::kv

// The directory that an agent puts files under, and nothing outside of it: a sender names paths, and neither
// "..", an absolute path nor a symbolic link may lead out. openat2(2) with RESOLVE_BENEATH holds that line in
// the kernel; where it is missing, paths are walked one component at a time and no symbolic link is followed.
// Blocking calls; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/bcast-cli/file_io.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::bcast {

class ReceiveDirectory {
 public:
  enum class Confinement : std::uint8_t { beneath, walk };
  /// What to do about directories that are not there.
  enum class Missing : std::uint8_t { refuse, make };

  /// A directory that we can write in. Errors: as open(2) and mkdir(2).
  static Result<ReceiveDirectory> open(const std::string& path, Missing missing = Missing::refuse);
  /// The same with the confinement chosen rather than found out: old kernels can be tried on new ones.
  static Result<ReceiveDirectory> open(const std::string& path, Missing missing, Confinement confinement);

  const std::string& path() const { return path_; }

  /// The directory at `components` under the root. Errors: permission_denied (leads out of the root),
  /// not_found (a component is missing, or is no directory), and as open(2) and mkdir(2).
  Result<FileDescriptor> open_directory(const std::vector<std::string>& components, Missing missing) const;

 private:
  ReceiveDirectory(std::string path, FileDescriptor directory, Confinement confinement)
      : path_(std::move(path)), directory_(std::move(directory)), confinement_(confinement) {}
  /// Opens the directory `components` joined; `parent` is the one before its last component. -1 and errno.
  int open_beneath(const std::string& joined, int parent, const std::string& last) const;

  std::string path_;
  FileDescriptor directory_;
  Confinement confinement_;
};

/// The components of a relative path, without empty ones and ".". Errors: invalid_argument (absolute, "..", a
/// NUL).
Result<std::vector<std::string>> split_relative(std::string_view path);

}  // namespace rdmc::bcast

// The receive directory of an agent: files are put under it, and nowhere else. A sender chooses paths, but no
// "..", absolute path or symbolic link may lead out of this directory. With openat2(2) and RESOLVE_BENEATH,
// the kernel ensures this. If openat2(2) is missing, a path is opened one component at a time, and symbolic
// links are refused. The functions block. Any thread may call them.
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
  /// Determines what a function does if a directory does not exist: it returns an error, or it makes the
  /// directory.
  enum class Missing : std::uint8_t { refuse, make };

  /// Opens a directory that this process can write to. Errors: those of open(2) and mkdir(2).
  static Result<ReceiveDirectory> open(const std::string& path, Missing missing = Missing::refuse);
  /// Does the same with a given confinement, in place of the best one that the kernel offers. So a test can
  /// check the confinement that old kernels need.
  static Result<ReceiveDirectory> open(const std::string& path, Missing missing, Confinement confinement);

  const std::string& path() const { return path_; }

  /// Opens the directory at `components` under this one. Errors: permission_denied if the path leads out of
  /// this directory or, in mode `walk`, contains a symbolic link; not_found if a component is missing;
  /// invalid_argument if a component is not a directory; and those of open(2) and mkdir(2).
  Result<Descriptor> open_directory(const std::vector<std::string>& components, Missing missing) const;

 private:
  ReceiveDirectory(std::string path, Descriptor directory, Confinement confinement)
      : path_(std::move(path)), directory_(std::move(directory)), confinement_(confinement) {}
  /// Opens the directory at the path `joined`. `parent` is its parent directory, and `last` its last
  /// component. Returns -1 and sets errno after an error.
  int open_beneath(const std::string& joined, int parent, const std::string& last) const;

  std::string path_;
  Descriptor directory_;
  Confinement confinement_;
};

/// Returns the components of a relative path, except empty components and ".". Errors: invalid_argument if
/// the path is absolute, or contains ".." or a NUL byte.
Result<std::vector<std::string>> split_relative(std::string_view path);

}  // namespace rdmc::bcast

// The directory of a server's files. A process locks it as long as it uses it. Every call may wait for the
// disk. Movable. One thread at a time uses it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::kv {

class Directory {
 public:
  /// Makes the directory if it does not exist, with access for its owner only. Errors: already_exists if
  /// another process uses it; those of the file system.
  static Result<Directory> open(const std::string& path);

  /// The numbers of the files `kind`-NUMBER, with their names.
  Result<std::map<std::uint64_t, std::string>> list(const std::string& kind) const;
  /// Returns the names of the files that no server makes: the name is neither known nor KIND-NUMBER with one
  /// of these kinds. `known`, "lost+found", which a file system makes, and names that begin with a dot are
  /// left out. Errors: invalid_argument if such a name begins with one of the kinds. A copy with a wrong name
  /// would otherwise be ignored, and the server would begin without its data.
  Result<std::vector<std::string>> find_foreign_files(std::span<const std::string_view> kinds,
                                                      std::span<const std::string_view> known) const;
  /// Makes a file, in place of an earlier one with this name.
  Result<Descriptor> create(const std::string& name) const;
  Result<Descriptor> open_file(const std::string& name) const;
  /// Gives a file its name for good, on disk. The content must be on disk already.
  Result<void> rename(const std::string& from, const std::string& to) const;
  /// Makes the names durable.
  Result<void> sync() const;
  /// Has no effect if there is no such file.
  void remove(const std::string& name) const;
  const std::string& path() const { return path_; }
  int descriptor() const { return directory_.get(); }

 private:
  Directory(std::string path, Descriptor directory, Descriptor lock)
      : path_(std::move(path)), directory_(std::move(directory)), lock_(std::move(lock)) {}

  std::string path_;
  Descriptor directory_, lock_;
};

}  // namespace rdmc::kv

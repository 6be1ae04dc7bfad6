// A file on its way in: it stands beside its final name as .NAME.rdmc-partial, locked, until it is complete,
// synced and renamed; whoever looks at the final name sees the old file, the whole new one, or none. The lock
// dies with its process, so that a partial file without one is a dead transfer's and is replaced. Owned by
// one thread at a time.
#pragma once

#include <sys/types.h>

#include <string>

#include "apps/bcast-cli/destination.hpp"
#include "apps/bcast-cli/file_io.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::bcast {

class PartialFile {
 public:
  /// Makes and locks an empty partial file, which only its owner may read and write. `mode`: the permissions
  /// that it gets with its final name, whatever the umask. Errors: already_exists (another transfer is
  /// writing this file), as open(2).
  static Result<PartialFile> claim(Destination placement, bool overwrite, mode_t mode);

  PartialFile(PartialFile&&) = default;
  PartialFile& operator=(PartialFile&&) = delete;
  /// Removes the partial file unless it was committed.
  ~PartialFile();

  int fd() const noexcept { return file_.get(); }
  int directory() const noexcept { return placement_.directory.get(); }
  const std::string& path() const noexcept { return placement_.path; }

  /// Gives this very file its permissions, syncs it, gives it its final name, and syncs the directory.
  /// Errors: already_exists (without overwrite, a file has appeared there since; nothing is replaced),
  /// no_space, io_error: the partial file is then still there; not_found (somebody has removed it).
  Result<void> commit();

 private:
  PartialFile(Destination placement, FileDescriptor file, std::string temporary, bool overwrite, mode_t mode)
      : placement_(std::move(placement)),
        file_(std::move(file)),
        temporary_(std::move(temporary)),
        overwrite_(overwrite),
        mode_(mode) {}
  Result<void> give_permissions() const;
  Result<void> give_final_name() const;
  Result<void> rename(unsigned flags) const;
  void remove_partial() const;

  Destination placement_;
  FileDescriptor file_;
  std::string temporary_;
  bool overwrite_;
  mode_t mode_;
  bool committed_ = false;
};

}  // namespace rdmc::bcast

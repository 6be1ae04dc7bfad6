// A file that is being received. Until it is complete, synced and renamed, it is locked and has the name
// .NAME.rdmc-partial. So a reader of the final name sees the old file, the whole new file, or no file. The
// lock ends with its process. A partial file without a lock therefore belongs to a dead transfer and is
// replaced. Only one thread at a time may use it.
#pragma once

#include <sys/types.h>

#include <string>

#include "apps/bcast-cli/destination.hpp"
#include "apps/bcast-cli/file_io.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::bcast {

class PartialFile {
 public:
  /// Makes and locks an empty partial file, which only its owner may read and write. `mode` has the
  /// permissions that the file gets with its final name, whatever the umask is. Errors: already_exists if
  /// another transfer is writing this file, and those of open(2).
  static Result<PartialFile> claim(Destination placement, bool overwrite, mode_t mode);

  PartialFile(PartialFile&&) = default;
  PartialFile& operator=(PartialFile&&) = delete;
  /// Removes the partial file unless it was committed.
  ~PartialFile();

  int fd() const noexcept { return file_.get(); }
  int directory() const noexcept { return placement_.directory.get(); }
  const std::string& path() const noexcept { return placement_.path; }

  /// Gives the file its permissions, syncs it, gives it its final name, and syncs the directory. Never
  /// renames another file. If only the sync of the directory fails, the copy has its final name. After all
  /// other errors the destructor removes the partial file. Errors: already_exists if another file has
  /// appeared under the final name (without `overwrite` nothing is replaced), not_found if the partial file
  /// was removed, no_space, io_error.
  Result<void> commit();

 private:
  PartialFile(Destination placement, Descriptor file, std::string temporary, bool overwrite, mode_t mode)
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
  Descriptor file_;
  std::string temporary_;
  bool overwrite_;
  mode_t mode_;
  bool committed_ = false;
};

}  // namespace rdmc::bcast

// Where a file goes on a receiver: the meaning of DEST. With a trailing slash, or where a directory stands,
// the copy goes into it under the source's name; otherwise DEST is the copy's new name. Names are bytes:
// spaces, newlines and invalid UTF-8 pass untouched. Blocking calls; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "apps/bcast-cli/file_io.hpp"
#include "apps/bcast-cli/receive_directory.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::bcast {

struct DestinationRequest {
  std::string destination;  ///< DEST, relative to the root
  std::string source_name;  ///< the source's own name, without directories
  bool overwrite = false;
};

/// A directory, held open, and a name in it that may be taken.
struct Destination {
  FileDescriptor directory;
  std::string name;
  std::string path;  ///< for people
};

/// Finds the place and makes missing parents. Errors: invalid_argument (a name or path that cannot be, a
/// directory or device in the way), already_exists (without `overwrite`), permission_denied (out of the
/// root), as mkdir(2).
Result<Destination> resolve_destination(const ReceiveDirectory& receive_directory,
                                        const DestinationRequest& request);

/// Whether `bytes` more find room where `directory` is; `path` is for the message. A file system that does
/// not count its space has any. Errors: no_space.
Result<void> check_space(int directory, std::uint64_t bytes, std::string_view path);

/// The same, and that files can be made in `directory`, without making one. Errors: as open(2) and no_space.
Result<void> check_takes_files(int directory, std::uint64_t bytes, std::string_view path);

/// What place() would answer, and whether `bytes` find room, without making anything: the path of the
/// copy-to-be. For a dry run.
Result<std::string> foresee(const ReceiveDirectory& receive_directory, const DestinationRequest& request,
                            std::uint64_t bytes);

/// The last component of a path; what the copy is called inside a directory.
std::string_view base_name(std::string_view path);

/// ".NAME.rdmc-partial", where a file stands while it is incomplete. A NAME too long for `name_max` bytes is
/// cut and carries a hash instead of its end.
std::string partial_name(std::string_view name, std::size_t name_max);

}  // namespace rdmc::bcast

// Where a file is put on a receiver: the meaning of DEST. If DEST ends with a slash or is an existing
// directory, the copy is put into this directory under the source's name. Otherwise DEST is the copy's new
// name. Names are bytes: spaces, newlines and invalid UTF-8 are not changed. The functions block. Any thread
// may call them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "apps/bcast-cli/file_io.hpp"
#include "apps/bcast-cli/receive_directory.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::bcast {

struct DestinationRequest {
  std::string destination;  ///< DEST, relative to the receive directory
  std::string source_name;  ///< the source's own name, without directories
  bool overwrite = false;
};

/// An open directory, and the name that the copy gets in it.
struct Destination {
  Descriptor directory;
  std::string name;
  std::string path;  ///< the copy's path, for messages
};

/// Finds the destination and makes missing parent directories. Errors: invalid_argument if a name or the path
/// is invalid, or a directory or a device has the copy's name; already_exists if the copy exists and
/// `overwrite` is false; permission_denied if the path leads out of the receive directory; and those of
/// mkdir(2).
Result<Destination> resolve_destination(const ReceiveDirectory& receive_directory,
                                        const DestinationRequest& request);

/// Checks that `bytes` more bytes fit into the file system of `directory`. A file system that does not report
/// its free space passes the check. `path` is for the error message. Errors: no_space.
Result<void> check_space(int directory, std::uint64_t bytes, std::string_view path);

/// Does the same as check_space(), and also checks that files can be made in `directory`. Makes no file.
/// Errors: those of open(2), and no_space.
Result<void> check_takes_files(int directory, std::uint64_t bytes, std::string_view path);

/// For a dry run. Returns the path that resolve_destination() would choose, or its error, and checks that
/// `bytes` bytes fit. Makes nothing.
Result<std::string> foresee(const ReceiveDirectory& receive_directory, const DestinationRequest& request,
                            std::uint64_t bytes);

/// Returns the last component of a path. A copy in a directory gets this name.
std::string_view base_name(std::string_view path);

/// Returns the name of a file while it is incomplete: ".NAME.rdmc-partial". If this is longer than `name_max`
/// bytes, the end of NAME is replaced by a hash.
std::string partial_name(std::string_view name, std::size_t name_max);

}  // namespace rdmc::bcast

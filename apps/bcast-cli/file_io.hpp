// The system calls on files that this folder shares: functions that read or write until they are done, even
// after EINTR or a short count. The functions block, so callers use threads
// that may block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::bcast {

/// Reads until `into` is full or the file ends. Returns the number of bytes that were read. `name` is for the
/// error's text.
Result<std::size_t> read_at(int fd, std::span<std::byte> into, std::uint64_t offset, std::string_view name);

/// Writes all of `bytes`. Errors: no_space (the disk or quota is full, or the file size limit is reached),
/// io_error and others. The error's text contains `name`.
Result<void> write_at(int fd, std::span<const std::byte> bytes, std::uint64_t offset, std::string_view name);

/// Returns the whole content of a small text file, such as a hostlist or a key. "-" means standard input.
/// Errors: those of open(2) and read(2), and invalid_argument if the file is longer than `limit` bytes.
Result<std::string> read_small_file(const std::string& path, std::size_t limit);

}  // namespace rdmc::bcast

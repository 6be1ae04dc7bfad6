// What a receiver has of a file, across the epochs of a transfer: the partial file, the map of the blocks
// that are in it, and the digest as far as it goes. FileSink fills it, one epoch after the other, on its own
// thread; between them it is its owner's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "apps/bcast-cli/file_digest.hpp"
#include "apps/bcast-cli/file_shape.hpp"
#include "apps/bcast-cli/partial_file.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::bcast {

class ReceivedFile {
 public:
  /// Gives the partial file its length, all of it a hole. `allocated_bytes` is what the source takes on disk.
  /// Errors: no_space (fewer bytes are free than that, the size is past the file system's limit), as
  /// ftruncate(2).
  static Result<ReceivedFile> create(PartialFile file, FileShape shape, std::uint64_t allocated_bytes);

  const FileShape& shape() const { return shape_; }
  const std::string& path() const { return file_.path(); }
  const BlockMap& held() const { return held_; }
  /// Every block is held and hashed.
  std::optional<Digest> digest() const;
  /// As digest(), after hashing what has not been yet; nothing while blocks are missing. Errors: of reading.
  Result<std::optional<Digest>> whole_digest();
  /// For a reader of the same file. Errors: resource_limit.
  Result<FileDescriptor> duplicate() const;
  /// Makes it visible under its final name; as PartialFile::commit().
  Result<void> commit() { return file_.commit(); }

  /// Writes a block that is not held yet; runs of zeros stay holes. Errors: no_space, io_error.
  Result<void> write(std::uint64_t block, std::span<const std::byte> bytes);
  /// Hashes a held block from memory, after all before it; nothing while some of those are missing. Errors:
  /// of reading.
  Result<void> hash(std::uint64_t block, std::span<const std::byte> bytes);
  /// Hashes what is held in one piece from the beginning. Errors: of reading.
  Result<void> hash_held_prefix();

 private:
  ReceivedFile(PartialFile file, FileShape shape)
      : file_(std::move(file)), shape_(shape), held_(shape.blocks()), hash_(shape) {}

  PartialFile file_;
  FileShape shape_;
  BlockMap held_;
  FileDigest hash_;
};

}  // namespace rdmc::bcast

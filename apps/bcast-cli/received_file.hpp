// A receiver's file during all epochs of a transfer: the partial file, the map of the blocks in it, and the
// digest of the blocks hashed so far. In each epoch a FileSink fills it on its own thread. Between epochs
// only the owner uses it.
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
  /// Makes a file of a partial file, and gives it its length, as one hole. `allocated_bytes` is the space
  /// that the source takes on disk. Errors: no_space if less space is free, or if the size exceeds the file
  /// system's limit; and those of ftruncate(2).
  static Result<ReceivedFile> create(PartialFile file, FileShape shape, std::uint64_t allocated_bytes);

  const FileShape& shape() const { return shape_; }
  const std::string& path() const { return file_.path(); }
  const BlockMap& held() const { return held_; }
  /// Returns the digest, if the file has every block and every block is hashed.
  std::optional<Digest> digest() const;
  /// Does the same as digest(), but first hashes the blocks that are not hashed yet. Returns an empty value
  /// while blocks are missing. Errors: those of reading.
  Result<std::optional<Digest>> whole_digest();
  /// Returns a second descriptor, for a reader of the same file. Errors: resource_limit.
  Result<Descriptor> duplicate() const;
  /// Makes the file visible under its final name, as PartialFile::commit() does.
  Result<void> commit() { return file_.commit(); }

  /// Writes a block, if the file does not have it yet. Runs of zeros stay holes. Errors: no_space, io_error.
  Result<void> write(std::uint64_t block, std::span<const std::byte> bytes);
  /// Hashes a block of the file from memory, after all blocks before it. Does nothing while one of the blocks
  /// before it is missing. Errors: those of reading.
  Result<void> hash(std::uint64_t block, std::span<const std::byte> bytes);
  /// Hashes the blocks of the file from the beginning up to the first missing block. Errors: those of
  /// reading.
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

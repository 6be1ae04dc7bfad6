// The format of the files that keep the state of a server on disk. A log has events. A copy has the whole
// state. Each file has a head, and then frames. A frame says up to which offset its file was on disk when the
// frame was written. So a reader can tell the end of a write that a loss of power has cut off, which nobody
// has relied on, from damage to something that was on disk. The functions are pure.
//
//   file := head, frame ...
//   head := magic, version, kind, id, place in the order (StoredState), checksum
//   frame := mark, length, durable, checksum, that many bytes
//
// All numbers are stored with the lowest byte first. The checksum of a frame (XXH3) depends on the file's id
// and on the frame's offset. So bytes that were copied from another file or place are not mistaken for a
// frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "lib/include/rdmc/replicated_state.hpp"

namespace rdmc::kv {

/// The numbers are on disk.
enum class FileKind : std::uint8_t {
  log = 1,             ///< the log goes on where the preceding log ends
  log_after_copy = 2,  ///< the log begins with the copy that has the same number
  copy = 3
};

struct FileHead {
  FileKind kind = FileKind::log;
  std::uint64_t id = 0;  ///< random
  StoredState begin;     ///< a log: the place before its first event; a copy: the place of the state

  friend bool operator==(const FileHead&, const FileHead&) = default;
};

inline constexpr std::size_t kFileHeadBytes = 64, kFrameHeadBytes = 24;
/// The limit for the bytes of a frame, in addition to its head.
inline constexpr std::size_t kMostFrameBytes = 16 << 20;

std::vector<std::byte> encode(const FileHead& head);
/// Errors: corrupt; version_mismatch.
Result<FileHead> decode_file_head(std::span<const std::byte> bytes);

/// This is the place where the next frame of a file is put.
struct FramePlace {
  std::uint64_t id = 0;       ///< of the file
  std::uint64_t offset = 0;   ///< of the frame in the file
  std::uint64_t durable = 0;  ///< this much of the file is on disk
};
/// Appends a frame.
void put_frame(std::vector<std::byte>& out, const FramePlace& place, std::span<const std::byte> bytes);

/// A file that is read.
class FileSource {
 public:
  virtual ~FileSource() = default;
  /// Reads bytes into `to`. Returns their number, which is smaller only at the end of the file.
  virtual Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> to) = 0;
};

/// Reads the frames of a file in their order.
class FrameReader {
 public:
  FrameReader(FileSource& file, std::uint64_t id) : file_(file), id_(id) {}
  /// Returns the bytes of the next frame, which are valid until the next call. Returns nullopt at the end, or
  /// where the last write was cut off. Errors: corrupt if something is damaged that was on disk, with its
  /// offset; those of the file.
  Result<std::optional<std::span<const std::byte>>> next();
  /// The end of the frames that were returned.
  std::uint64_t offset() const { return offset_; }

 private:
  struct Frame {
    std::size_t length = 0;
    std::uint64_t durable = 0;
  };
  Result<std::optional<Frame>> frame_at(std::uint64_t offset);
  Result<std::span<const std::byte>> bytes_from(std::uint64_t offset, std::size_t least);
  Result<std::span<const std::byte>> bytes_at(std::uint64_t offset, std::size_t count);
  Result<bool> is_followed_by_durable();

  FileSource& file_;
  const std::uint64_t id_;
  std::uint64_t offset_ = kFileHeadBytes;
  std::vector<std::byte> buffer_;
  std::uint64_t buffer_offset_ = 0;
};

/// An event of the order, as a frame has it.
std::vector<std::byte> encode_logged(const OrderedEvent& event);
/// Returns nullopt if the bytes are wrong. The event's bytes are those of `bytes`.
std::optional<OrderedEvent> decode_logged(std::span<const std::byte> bytes);

}  // namespace rdmc::kv

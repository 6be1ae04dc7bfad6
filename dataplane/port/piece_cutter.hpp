// Takes parts of given sizes from a gather list. A driver whose device does not cut trains uses this class to
// cut trains into datagrams. The object refers to the list and to the bytes of the list, and owns nothing.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <span>

namespace rdmc::port {

class PieceCutter {
 public:
  explicit PieceCutter(std::span<const iovec> pieces) : pieces_(pieces) {}

  /// Returns the next non-empty piece, of at most `bytes` bytes. Returns an empty piece at the end of the
  /// list.
  iovec next(std::size_t bytes) {
    while (!pieces_.empty() && offset_ == pieces_[0].iov_len) {
      pieces_ = pieces_.subspan(1);
      offset_ = 0;
    }
    if (pieces_.empty()) return {nullptr, 0};
    const iovec piece{static_cast<std::byte*>(pieces_[0].iov_base) + offset_,
                      std::min(bytes, pieces_[0].iov_len - offset_)};
    offset_ += piece.iov_len;
    return piece;
  }

  /// Fills `out` with the pieces of the next `bytes` bytes. Returns the number of pieces.
  std::size_t cut(std::size_t bytes, std::span<iovec> out) {
    std::size_t used = 0;
    while (bytes > 0 && used < out.size()) {
      const iovec piece = next(bytes);
      if (piece.iov_len == 0) break;
      out[used++] = piece;
      bytes -= piece.iov_len;
    }
    return used;
  }

 private:
  std::span<const iovec> pieces_;
  std::size_t offset_ = 0;
};

}  // namespace rdmc::port

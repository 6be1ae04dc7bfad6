// Parses the requests of a client: arrays of bulk strings (RESP2 and RESP3), and lines for people ("inline
// commands"), as Redis 7.0 does (redis.io, "Redis serialization protocol specification"). The parser owns the
// received bytes. It has no I/O. One thread uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdmc::kv {

/// The words of a request. The first word is the name of the command. An empty request has no word.
using Words = std::vector<std::string_view>;

class RequestParser {
 public:
  struct Limits {
    std::size_t bulk_bytes = 512 << 20;                ///< the longest word
    std::int64_t words = 1 << 20;                      ///< the largest number of words of one request
    std::size_t line_bytes = 64 << 10;                 ///< the longest line
    std::size_t request_bytes = std::size_t{1} << 30;  ///< the longest request
  };
  enum class Status : std::uint8_t {
    incomplete,  ///< more bytes are needed
    complete,    ///< words() has the next request
    broken       ///< error() says why; nothing more can be parsed
  };

  explicit RequestParser(const Limits& limits) : limits_(limits) {}

  /// Returns memory for at least `bytes` received bytes. It is valid until the next call of any function.
  std::span<char> space(std::size_t bytes);
  /// Says that `bytes` bytes have been written to space().
  void received(std::size_t bytes);
  /// Parses the next request. The result of words() is valid until the next call of next() or space().
  Status next();
  const Words& words() const { return words_; }
  /// The text of the error, without "ERR Protocol error: ".
  const std::string& error() const { return error_; }
  /// True if the error is that the request is longer than Limits::request_bytes.
  bool is_too_long() const { return is_too_long_; }
  /// The number of bytes that were received and not parsed yet.
  std::size_t waiting_bytes() const { return end_ - begin_; }
  /// Gives memory back that the bytes which wait do not need. Invalidates words().
  void shrink();
  /// The number of bytes of memory that the parser keeps.
  std::size_t memory() const {
    return buffer_.capacity() + ranges_.capacity() * sizeof(Range) +
           words_.capacity() * sizeof(std::string_view) + unquoted_.capacity() * sizeof(std::string) +
           unquoted_bytes_;
  }
  Limits& limits() { return limits_; }

 private:
  struct Range {
    std::size_t begin, size;  // relative to begin_
  };

  Status parse_array();
  Status parse_line();
  /// Returns the line that begins at begin_ + at, without its end, or nullptr data if it is not complete.
  std::string_view line_at(std::size_t at) const;
  Status break_with(std::string error);
  Status finish(std::size_t size);

  Limits limits_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // the bytes that are not parsed yet
  std::size_t parsed_ = 0;           // of the request at begin_: the bytes that need not be looked at again
  std::int64_t missing_ = -1;        // the number of words that are missing of an array, or -1
  std::int64_t bulk_ = -1;           // the size of the word at parsed_, or -1 if its head was not parsed
  std::vector<Range> ranges_;
  std::vector<std::string> unquoted_;  // the words of a line
  std::size_t unquoted_bytes_ = 0;     // at least the bytes of memory that these words have
  Words words_;
  std::string error_;
  bool is_too_long_ = false;
};

/// Splits a line into words as redis-cli and Redis do: words may be in quotation marks, and "\xHH", "\n",
/// "\r",
/// "\t", "\a", "\b" have their usual meaning between double ones. Returns false if quotation marks are not
/// balanced.
bool split_line(std::string_view line, std::vector<std::string>& words);

}  // namespace rdmc::kv

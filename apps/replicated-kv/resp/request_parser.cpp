#include "apps/replicated-kv/resp/request_parser.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace rdmc::kv {

namespace {

/// The head of an array or of a word has at most this size.
constexpr std::size_t kMostHeadBytes = 64 << 10;
/// A parser keeps memory of this size for the next requests.
constexpr std::size_t kKeptBytes = 128 << 10, kKeptWords = 1024;

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool parse_number(std::string_view text, std::int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

/// Reads a word between double quotation marks that begins at `at`. Returns the index after the closing one,
/// or 0.
std::size_t read_double_quoted(std::string_view line, std::size_t at, std::string& word) {
  for (; at < line.size(); ++at) {
    if (line[at] == '"') return at + 1;
    if (line[at] != '\\' || at + 1 == line.size()) {
      word += line[at];
      continue;
    }
    const char c = line[++at];
    if (c == 'x' && at + 2 < line.size() && digit_of(line[at + 1]) >= 0 && digit_of(line[at + 2]) >= 0) {
      word += static_cast<char>(digit_of(line[at + 1]) * 16 + digit_of(line[at + 2]));
      at += 2;
      continue;
    }
    constexpr std::string_view kNames = "nrtba", kMeanings = "\n\r\t\b\a";
    const auto known = kNames.find(c);
    word += known == std::string_view::npos ? c : kMeanings[known];
  }
  return 0;
}

std::size_t read_single_quoted(std::string_view line, std::size_t at, std::string& word) {
  for (; at < line.size(); ++at) {
    if (line[at] == '\'') return at + 1;
    if (line[at] == '\\' && at + 1 < line.size() && line[at + 1] == '\'') ++at;
    word += line[at];
  }
  return 0;
}

}  // namespace

bool split_line(std::string_view line, std::vector<std::string>& words) {
  words.clear();
  for (std::size_t at = 0;;) {
    while (at < line.size() && is_space(line[at])) ++at;
    if (at == line.size()) return true;
    std::string& word = words.emplace_back();
    while (at < line.size() && !is_space(line[at])) {
      const char c = line[at++];
      if (c != '"' && c != '\'') {
        word += c;
        continue;
      }
      at = c == '"' ? read_double_quoted(line, at, word) : read_single_quoted(line, at, word);
      // The closing quotation mark must end the word.
      if (at == 0 || (at < line.size() && !is_space(line[at]))) return false;
    }
  }
}

std::span<char> RequestParser::space(std::size_t bytes) {
  if (begin_ == end_) begin_ = end_ = 0;
  if (buffer_.size() - end_ < bytes) {
    if (begin_ != 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    // The memory of a long word is needed soon.
    const std::size_t needed =
        std::max(end_ + bytes,
                 bulk_ > 0 ? std::min(parsed_ + static_cast<std::size_t>(bulk_) + 2, 2 * end_ + bytes) : 0);
    // No more is needed than for the longest request and what is read with its end.
    if (buffer_.size() < needed)
      buffer_.resize(std::max(needed, std::min(2 * end_, limits_.request_bytes + bytes)));
  }
  return {buffer_.data() + end_, buffer_.size() - end_};
}

void RequestParser::shrink() {
  const std::size_t used = end_ - begin_;
  if (buffer_.size() > kKeptBytes && used < buffer_.size() / 8) {
    buffer_ = std::vector<char>(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
                                buffer_.begin() + static_cast<std::ptrdiff_t>(end_));
    begin_ = 0;
    end_ = used;
  }
  words_.clear();
  // An assignment of {} would keep the memory.
  if (missing_ < 0 && ranges_.capacity() > kKeptWords) ranges_ = decltype(ranges_)();
  if (words_.capacity() > kKeptWords) words_ = decltype(words_)();
  unquoted_.clear();
  unquoted_bytes_ = 0;
  if (unquoted_.capacity() > kKeptWords) unquoted_ = decltype(unquoted_)();
}

void RequestParser::received(std::size_t bytes) {
  end_ += bytes;
}

RequestParser::Status RequestParser::break_with(std::string error) {
  error_ = std::move(error);
  return Status::broken;
}

RequestParser::Status RequestParser::finish(std::size_t size) {
  begin_ += size;
  parsed_ = 0;
  missing_ = bulk_ = -1;
  return Status::complete;
}

std::string_view RequestParser::line_at(std::size_t at) const {
  const char* const start = buffer_.data() + begin_ + at;
  const std::size_t size = end_ - begin_ - at;
  const auto* const end = static_cast<const char*>(size == 0 ? nullptr : std::memchr(start, '\n', size));
  return end == nullptr ? std::string_view() : std::string_view(start, static_cast<std::size_t>(end - start));
}

RequestParser::Status RequestParser::next() {
  if (!error_.empty()) return Status::broken;
  words_.clear();
  if (begin_ == end_) return Status::incomplete;
  return missing_ >= 0 || buffer_[begin_] == '*' ? parse_array() : parse_line();
}

RequestParser::Status RequestParser::parse_line() {
  std::string_view line = line_at(0);
  if (line.data() == nullptr)
    return end_ - begin_ > limits_.line_bytes ? break_with("too big inline request") : Status::incomplete;
  const std::size_t size = line.size() + 1;
  if (line.size() > limits_.line_bytes) return break_with("too big inline request");
  if (line.ends_with('\r')) line.remove_suffix(1);
  const bool is_balanced = split_line(line, unquoted_);
  unquoted_bytes_ = 2 * line.size();
  if (!is_balanced) return break_with("unbalanced quotes in request");
  for (const std::string& word : unquoted_) words_.emplace_back(word);
  return finish(size);
}

RequestParser::Status RequestParser::parse_array() {
  // Both kinds of heads end with "\r\n".
  const auto head = [&](std::string_view& line) {
    line = line_at(parsed_);
    if (line.data() == nullptr) return false;
    parsed_ += line.size() + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    return true;
  };
  std::string_view line;
  if (missing_ < 0) {
    ranges_.clear();
    if (!head(line))
      return end_ - begin_ > kMostHeadBytes ? break_with("too big mbulk count string") : Status::incomplete;
    std::int64_t count = 0;
    if (!parse_number(line.substr(1), count) || count > INT32_MAX)
      return break_with("invalid multibulk length");
    if (count > limits_.words)
      return break_with(limits_.words <= 10 ? "unauthenticated multibulk length"
                                            : "invalid multibulk length");
    if (count <= 0) return finish(parsed_);
    missing_ = count;
  }
  while (missing_ > 0) {
    if (bulk_ < 0) {
      if (!head(line))
        return end_ - begin_ - parsed_ > kMostHeadBytes ? break_with("too big bulk count string")
                                                        : Status::incomplete;
      if (line.empty() || line[0] != '$')
        return break_with("expected '$', got '" + std::string(line.substr(0, 1)) + "'");
      std::int64_t size = 0;
      if (!parse_number(line.substr(1), size) || size < 0) return break_with("invalid bulk length");
      if (static_cast<std::size_t>(size) > limits_.bulk_bytes)
        return break_with(limits_.words <= 10 ? "unauthenticated bulk length" : "invalid bulk length");
      is_too_long_ = parsed_ + static_cast<std::size_t>(size) + 2 > limits_.request_bytes;
      if (is_too_long_) return break_with("the request is longer than client-query-buffer-limit");
      bulk_ = size;
    }
    const auto size = static_cast<std::size_t>(bulk_);
    if (end_ - begin_ - parsed_ < size + 2) return Status::incomplete;
    ranges_.push_back({parsed_, size});
    parsed_ += size + 2;
    bulk_ = -1;
    --missing_;
  }
  for (const Range& range : ranges_) words_.emplace_back(buffer_.data() + begin_ + range.begin, range.size);
  return finish(parsed_);
}

}  // namespace rdmc::kv

// Writes replies in RESP2 or RESP3. RESP3's types become their usual RESP2 form for a client that has not
// asked for RESP3. A muted writer writes nothing: it is for commands whose reply nobody needs here. A reply
// that gets too long is cut: the writer becomes muted. One thread uses it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rdmc::kv {

class ReplyWriter {
 public:
  /// Appends to `out`, which must exist longer, until it has `most` bytes.
  ReplyWriter(std::string& out, bool is_resp3, std::size_t most = SIZE_MAX)
      : out_(&out), is_resp3_(is_resp3), most_(most) {}
  /// A muted writer.
  ReplyWriter() = default;

  bool is_muted() const { return out_ == nullptr; }
  /// True if the reply would have been longer than permitted. What was written is of no use.
  bool is_cut() const { return is_cut_; }
  bool is_resp3() const { return is_resp3_; }
  /// The first word of the last error reply, for example "ERR".
  std::string_view error_code() const { return {code_.data(), code_size_}; }
  /// The number of error replies so far.
  std::size_t errors() const { return errors_; }

  void ok() { line("+OK\r\n"); }
  void simple(std::string_view text);
  /// `text` begins with the code of the error, for example "ERR ". Line ends in it become spaces.
  void error(std::string_view text);
  void integer(std::int64_t number);
  void bulk(std::string_view bytes);
  /// A text that a person reads. Its type in RESP3 is the verbatim string.
  void verbatim(std::string_view text);
  void null();
  /// The reply of a command whose array does not exist, such as an aborted EXEC.
  void null_array();
  void boolean(bool value);
  /// In RESP2 the number is a bulk string.
  void real(double number);
  void array(std::size_t count) { head('*', count); }
  /// `count` pairs follow.
  void map(std::size_t count) { is_resp3_ ? head('%', count) : head('*', 2 * count); }
  void set(std::size_t count) { head(is_resp3_ ? '~' : '*', count); }
  void push(std::size_t count) { head(is_resp3_ ? '>' : '*', count); }
  /// Bytes that are a reply already.
  void raw(std::string_view bytes) { line(bytes); }

 private:
  void line(std::string_view text) {
    if (out_ == nullptr) return;
    if (text.size() > most_ - std::min(out_->size(), most_)) return cut();
    out_->append(text);
  }
  void cut() {
    out_ = nullptr;
    is_cut_ = true;
  }
  void head(char kind, std::size_t count);

  std::string* out_ = nullptr;
  bool is_resp3_ = false, is_cut_ = false;
  std::size_t most_ = SIZE_MAX;
  std::size_t errors_ = 0;
  std::array<char, 24> code_{};
  std::size_t code_size_ = 0;
};

/// The shortest text that gives `number` again, as Redis writes it: "3", "3.5", "1e+20", "inf", "-inf",
/// "nan".
std::string text_of(double number);

}  // namespace rdmc::kv

#include "apps/replicated-kv/resp/reply_writer.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

namespace rdmc::kv {

namespace {

constexpr std::size_t kNumberBytes = 24;

}  // namespace

void ReplyWriter::head(char kind, std::size_t count) {
  if (out_ == nullptr) return;
  std::array<char, kNumberBytes> text;
  text[0] = kind;
  char* const end = std::to_chars(text.data() + 1, text.data() + text.size() - 2, count).ptr;
  end[0] = '\r';
  end[1] = '\n';
  line({text.data(), static_cast<std::size_t>(end + 2 - text.data())});
}

void ReplyWriter::integer(std::int64_t number) {
  if (out_ == nullptr) return;
  std::array<char, kNumberBytes> text;
  text[0] = ':';
  char* const end = std::to_chars(text.data() + 1, text.data() + text.size() - 2, number).ptr;
  end[0] = '\r';
  end[1] = '\n';
  line({text.data(), static_cast<std::size_t>(end + 2 - text.data())});
}

void ReplyWriter::simple(std::string_view text) {
  line("+");
  line(text);
  line("\r\n");
}

void ReplyWriter::error(std::string_view text) {
  ++errors_;
  if (out_ == nullptr) return;
  code_size_ = std::min({text.find(' '), text.size(), code_.size()});
  std::copy_n(text.begin(), code_size_, code_.begin());
  out_->push_back('-');
  for (const char c : text) out_->push_back(c == '\r' || c == '\n' ? ' ' : c);
  out_->append("\r\n");
}

void ReplyWriter::bulk(std::string_view bytes) {
  head('$', bytes.size());
  line(bytes);
  line("\r\n");
}

void ReplyWriter::verbatim(std::string_view text) {
  if (!is_resp3_) return bulk(text);
  head('=', text.size() + 4);
  line("txt:");
  line(text);
  line("\r\n");
}

void ReplyWriter::null() {
  line(is_resp3_ ? "_\r\n" : "$-1\r\n");
}

void ReplyWriter::null_array() {
  line(is_resp3_ ? "_\r\n" : "*-1\r\n");
}

void ReplyWriter::boolean(bool value) {
  if (is_resp3_) return line(value ? "#t\r\n" : "#f\r\n");
  integer(value ? 1 : 0);
}

void ReplyWriter::real(double number) {
  if (out_ == nullptr) return;
  if (!is_resp3_) return bulk(text_of(number));
  line(",");
  line(text_of(number));
  line("\r\n");
}

std::string text_of(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  if (number == 0) return std::signbit(number) ? "-0" : "0";
  // Redis writes whole numbers of up to 17 digits without an exponent.
  if (number == std::floor(number) && std::abs(number) < 1e17)
    return std::to_string(static_cast<std::int64_t>(number));
  return fmt::format("{:.17g}", number);
}

}  // namespace rdmc::kv

#include "apps/replicated-kv/resp/request_parser.hpp"

#include <rapidcheck.h>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstring>

BOOST_AUTO_TEST_SUITE(request_parser_test)

using namespace rdmc::kv;
using Status = RequestParser::Status;
using Requests = std::vector<std::vector<std::string>>;

namespace {

void give(RequestParser& parser, std::string_view bytes) {
  const auto space = parser.space(std::max<std::size_t>(bytes.size(), 1));
  std::ranges::copy(bytes, space.data());
  parser.received(bytes.size());
}

void take_all(RequestParser& parser, Requests& requests) {
  while (parser.next() == Status::complete)
    requests.emplace_back(parser.words().begin(), parser.words().end());
}

std::string encoded(const std::vector<std::string>& words) {
  std::string text = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) text += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  return text;
}

/// The error after these bytes, or "" if there is none.
std::string error_after(std::string_view bytes, const RequestParser::Limits& limits = {}) {
  RequestParser parser(limits);
  give(parser, bytes);
  Requests requests;
  take_all(parser, requests);
  return parser.error();
}

}  // namespace

BOOST_AUTO_TEST_CASE(requests_come_out_as_they_went_in_however_their_bytes_are_cut) {
  BOOST_TEST(rc::check([] {
    const auto requests = *rc::gen::container<Requests>(
        rc::gen::nonEmpty(rc::gen::container<std::vector<std::string>>(rc::gen::string<std::string>())));
    std::string bytes;
    for (const auto& request : requests) bytes += encoded(request);
    RequestParser parser({});
    Requests got;
    for (std::string_view rest = bytes; !rest.empty();) {
      const auto size = std::min<std::size_t>(*rc::gen::inRange<std::size_t>(1, 40), rest.size());
      give(parser, rest.substr(0, size));
      rest.remove_prefix(size);
      take_all(parser, got);
    }
    RC_ASSERT(got == requests);
    RC_ASSERT(parser.waiting_bytes() == 0u);
  }));
}

BOOST_AUTO_TEST_CASE(a_line_has_words_and_quotation_marks) {
  RequestParser parser({});
  give(parser, "SET  key \"a \\x41\\n\\\"b\"\r\n\r\nGET 'it\\'s'\n");
  Requests got;
  take_all(parser, got);
  const Requests expected{{"SET", "key", "a A\n\"b"}, {}, {"GET", "it's"}};
  BOOST_TEST((got == expected));
  BOOST_TEST(error_after("SET \"a\r\n") == "unbalanced quotes in request");
  BOOST_TEST(error_after("SET \"a\"b\r\n") == "unbalanced quotes in request");
}

BOOST_AUTO_TEST_CASE(what_breaks_the_protocol_is_named_as_redis_names_it) {
  BOOST_TEST(error_after("*x\r\n") == "invalid multibulk length");
  BOOST_TEST(error_after("*1048577\r\n") == "invalid multibulk length");
  BOOST_TEST(error_after("*3000000000\r\n") == "invalid multibulk length");
  BOOST_TEST(error_after("*1\r\nfoo\r\n") == "expected '$', got 'f'");
  BOOST_TEST(error_after("*1\r\n$-5\r\n") == "invalid bulk length");
  BOOST_TEST(error_after("*1\r\n$x\r\n") == "invalid bulk length");
  BOOST_TEST(error_after("*1\r\n$5000000000\r\n") == "invalid bulk length");
  BOOST_TEST(error_after("*11\r\n", {.words = 10}) == "unauthenticated multibulk length");
  BOOST_TEST(error_after(std::string(70'000, 'a')) == "too big inline request");
  BOOST_TEST(error_after("*" + std::string(70'000, '1')) == "too big mbulk count string");
  BOOST_TEST(error_after("*1\r\n$" + std::string(70'000, '1')) == "too big bulk count string");
  BOOST_TEST(error_after("*0\r\n*-1\r\nPING\r\n").empty());
}

BOOST_AUTO_TEST_CASE(any_bytes_are_safe_and_end_with_an_error_or_with_requests) {
  BOOST_TEST(rc::check([] {
    const auto text =
        *rc::gen::container<std::string>(rc::gen::elementOf(std::string("*$0123-\r\n\r\n\r\nab\"'\\x")));
    RequestParser parser({.bulk_bytes = 100, .words = 20, .line_bytes = 100});
    Requests got;
    for (const char c : text) {
      give(parser, {&c, 1});
      take_all(parser, got);
    }
    RC_ASSERT(got.size() <= text.size());
  }));
}

BOOST_AUTO_TEST_CASE(a_parser_gives_back_the_memory_of_a_long_word) {
  RequestParser parser({});
  give(parser, encoded({"SET", "k", std::string(10 << 20, 'x')}));
  Requests got;
  take_all(parser, got);
  BOOST_REQUIRE_EQUAL(got.size(), 1u);
  parser.shrink();
  BOOST_TEST(parser.memory() <= 64u << 10);
}

BOOST_AUTO_TEST_SUITE_END()

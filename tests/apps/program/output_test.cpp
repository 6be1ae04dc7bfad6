#include "apps/program/output.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(output_test)

using namespace rdmc;

BOOST_AUTO_TEST_CASE(what_would_move_a_terminals_cursor_is_spelled_out) {
  BOOST_TEST(printable("plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80") ==
             "plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  BOOST_TEST(printable("\x1b[2J\n\t") == "\\x1b[2J\\x0a\\x09");
  BOOST_TEST(printable("\x7f") == "\\x7f");
  BOOST_TEST(printable("\xc2\x9b") == "\\xc2\\x9b");           // the C1 control character CSI
  BOOST_TEST(printable("\xe2\x80\xae") == "\\xe2\\x80\\xae");  // the right-to-left override
  BOOST_TEST(printable("\xff\xc3") == "\\xff\\xc3");
  // An overlong sequence and a surrogate are not valid UTF-8.
  BOOST_TEST(printable("\xc0\xaf\xed\xa0\x80") == "\\xc0\\xaf\\xed\\xa0\\x80");
}

BOOST_AUTO_TEST_CASE(a_line_of_json_is_utf8_and_ends_once_whatever_it_was_made_of) {
  const std::string line = json_line({{"name", "a\xff\n"}});
  BOOST_TEST(line == "{\"name\":\"a\xef\xbf\xbd\\n\"}\n");
}

BOOST_AUTO_TEST_CASE(a_complaint_is_one_line_that_names_the_program) {
  BOOST_TEST(complaint("no \n such") == "program_test: no \\x0a such\n");
}

BOOST_AUTO_TEST_SUITE_END()

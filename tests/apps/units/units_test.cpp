#include "apps/units/units.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>
#include <limits>

BOOST_AUTO_TEST_SUITE(units_test)

using namespace rdmc;

BOOST_AUTO_TEST_CASE(sizes_take_suffixes_as_powers_of_1024) {
  BOOST_TEST(parse_size("0").value() == 0u);
  BOOST_TEST(parse_size("4096").value() == 4096u);
  BOOST_TEST(parse_size("256K").value() == 262144u);
  BOOST_TEST(parse_size("3M").value() == 3145728u);
  BOOST_TEST(parse_size("2G").value() == 2147483648u);
}

BOOST_AUTO_TEST_CASE(what_is_no_size_is_refused_by_name) {
  for (const auto* text : {"", "K", "1k", "1KB", "-1", "+1", "1.5M", " 1", "1 ", "0x10", "1M1", "8589934592G",
                           "18446744073709551616", "9223372036854775808"}) {
    const auto size = parse_size(text);
    BOOST_TEST(!size.has_value(), "accepted " << text);
    BOOST_TEST((size.error().code == Errc::invalid_argument));
    BOOST_TEST(size.error().what.find(text) != std::string::npos);
  }
  BOOST_TEST(parse_size("9223372036854775807").value() == std::uint64_t{9223372036854775807u});
}

BOOST_AUTO_TEST_CASE(rates_take_suffixes_as_powers_of_1000) {
  BOOST_TEST(parse_rate("9600").value() == 9600u);
  BOOST_TEST(parse_rate("100k").value() == 100'000u);
  BOOST_TEST(parse_rate("1.5m").value() == 1'500'000u);
  BOOST_TEST(parse_rate("20g").value() == 20'000'000'000u);
  for (const auto* text : {"", "g", "0", "0.5", "-1g", "1e9", "1G", "nan", "inf", "1..2", "9999999999g"})
    BOOST_TEST(!parse_rate(text).has_value(), "accepted " << text);
}

BOOST_AUTO_TEST_CASE(durations_are_seconds_unless_they_say_otherwise) {
  BOOST_TEST(parse_duration("500ms").value().ns == 500'000'000);
  BOOST_TEST(parse_duration("2s").value().ns == 2'000'000'000);
  BOOST_TEST(parse_duration("0.7").value().ns == 700'000'000);
  for (const auto* text : {"", "ms", "s", "1m", "-1s", "1e3", "2 s", "99999999999s"})
    BOOST_TEST(!parse_duration(text).has_value(), "accepted " << text);
}

BOOST_AUTO_TEST_CASE(every_whole_size_is_read_back_as_it_was_written) {
  BOOST_TEST(rc::check([](std::uint32_t count) {
    RC_ASSERT(parse_size(std::to_string(count)).value() == count);
    RC_ASSERT(parse_size(std::to_string(count) + "K").value() == std::uint64_t{count} * 1024);
  }));
}

BOOST_AUTO_TEST_CASE(people_read_three_digits_and_a_unit) {
  BOOST_TEST(size_words(1023) == "1023 B");
  BOOST_TEST(size_words(1536) == "1.50 KiB");
  BOOST_TEST(size_words(1 << 20) == "1.00 MiB");
  BOOST_TEST(size_words(256 << 20) == "256 MiB");
  BOOST_TEST(size_words((1 << 20) - 1) == "1.00 MiB");
  BOOST_TEST(rate_words(9.41e9) == "9.41 Gb/s");
  BOOST_TEST(rate_words(2.5e6) == "2.5 Mb/s");
  BOOST_TEST(duration_words(0.42) == "0.420 s");
  BOOST_TEST(duration_words(185) == "3m05s");
  BOOST_TEST(duration_words(7322) == "2h02m");
  BOOST_TEST(duration_words(std::numeric_limits<double>::infinity()) == "?");
}

BOOST_AUTO_TEST_SUITE_END()

#include "apps/units/option_values.hpp"

#include <boost/test/unit_test.hpp>
#include <optional>

BOOST_AUTO_TEST_SUITE(option_values_test)

using namespace rdmc;

namespace {

/// Returns the value that an option of type T gets from `text`. If `text` is refused, returns nothing and
/// stores the message in `why`.
template <typename T>
std::optional<T> taken(const CLI::Validator& kind, const std::string& text, std::string* why = nullptr) {
  CLI::App app;
  T value{};
  app.add_option("--value", value)->transform(kind);
  try {
    app.parse("--value " + text);
  } catch (const CLI::ParseError& error) {
    if (why != nullptr) *why = error.what();
    return std::nullopt;
  }
  return value;
}

}  // namespace

BOOST_AUTO_TEST_CASE(options_take_sizes_and_rates_as_everywhere) {
  BOOST_TEST(taken<std::uint64_t>(size_value(), "256M").value() == 256u << 20);
  BOOST_TEST(taken<std::uint32_t>(size_value(), "4096").value() == 4096u);
  BOOST_TEST(taken<std::uint64_t>(rate_value(), "1.5g").value() == 1'500'000'000u);
}

BOOST_AUTO_TEST_CASE(what_is_none_is_refused_in_the_grammars_own_words) {
  std::string why;
  BOOST_TEST(!taken<std::uint64_t>(size_value(), "256MB", &why).has_value());
  BOOST_TEST(why.find("'256MB' is not a size") != std::string::npos, why);
  BOOST_TEST(!taken<std::uint64_t>(rate_value(), "10G", &why).has_value());
  BOOST_TEST(why.find("'10G' is not a rate") != std::string::npos, why);
}

BOOST_AUTO_TEST_CASE(a_wrong_word_or_number_is_refused_in_one_sentence_with_what_the_option_takes) {
  std::string why;
  const auto color = one_of({"red", "green", "blue"});
  BOOST_TEST(taken<std::string>(color, "green").value() == "green");
  BOOST_TEST(!taken<std::string>(color, "grey", &why).has_value());
  BOOST_TEST(why == "--value: 'grey' is not a value of this option: write red, green or blue");
  enum class Color : std::uint8_t { red, green };
  const auto known = value_of<Color>({{"red", Color::red}, {"green", Color::green}});
  BOOST_TEST((taken<Color>(known, "green") == Color::green));
  BOOST_TEST(!taken<Color>(known, "1", &why).has_value());
  BOOST_TEST(why == "--value: '1' is not a value of this option: write red or green");
  BOOST_TEST(taken<int>(number_from(1, 64), "64").value() == 64);
  for (const std::string wrong : {"0", "65", "-1", "one", "1.5"}) {
    BOOST_TEST(!taken<int>(number_from(1, 64), wrong, &why).has_value());
    BOOST_TEST(why ==
               "--value: '" + wrong + "' is not a value of this option: write a whole number from 1 to 64");
  }
  BOOST_TEST(!taken<std::uint32_t>(number_from(1U), "0", &why).has_value());
  BOOST_TEST(why == "--value: '0' is not a value of this option: write a whole number that is at least 1");
  BOOST_TEST(taken<int>(number_from(20, 1000, true), "0").value() == 0);
  BOOST_TEST(!taken<int>(number_from(20, 1000, true), "5", &why).has_value());
  BOOST_TEST(why == "--value: '5' is not a value of this option: write 0, or a whole number from 20 to 1000");
  BOOST_TEST(!taken<double>(number_from(0.01, 60.0), "x", &why).has_value());
  BOOST_TEST(why == "--value: 'x' is not a value of this option: write a number from 0.01 to 60");
}

BOOST_AUTO_TEST_CASE(the_help_shows_what_an_option_takes) {
  CLI::App app;
  std::string word;
  int number = 0;
  app.add_option("--word", word)->check(one_of({"red", "green"}));
  app.add_option("--number", number)->check(number_from(20, 1000, true));
  BOOST_TEST(app.help().find("TEXT:red|green") != std::string::npos, app.help());
  BOOST_TEST(app.help().find("INT:0, or 20 to 1000") != std::string::npos, app.help());
}

BOOST_AUTO_TEST_CASE(a_size_that_the_option_cannot_hold_is_refused) {
  BOOST_TEST(!taken<std::uint32_t>(size_value(), "8G").has_value());
}

BOOST_AUTO_TEST_SUITE_END()

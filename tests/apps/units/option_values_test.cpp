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

BOOST_AUTO_TEST_CASE(a_size_that_the_option_cannot_hold_is_refused) {
  BOOST_TEST(!taken<std::uint32_t>(size_value(), "8G").has_value());
}

BOOST_AUTO_TEST_SUITE_END()

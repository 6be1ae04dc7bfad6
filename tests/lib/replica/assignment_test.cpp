#include "lib/replica/assignment.hpp"

#include <rapidcheck.h>
#include <boost/test/unit_test.hpp>

#include "tests/lib/replica/generators.hpp"

BOOST_AUTO_TEST_SUITE(assignment_test)

using namespace rdmc;
using namespace rdmc::replica;
using namespace rdmc::testing;

namespace {

control::Variables environment_of(const Assignment& assignment) {
  control::Variables variables{
      {"PATH", "/bin"}, {"RDMC_KEY_FILE", "key"}, {"RDMC_RUN_OF_SOMETHING_ELSE", "1"}};
  const auto written = variables_of(assignment);
  BOOST_REQUIRE_MESSAGE(written.has_value(), written.error().what);
  for (const auto& [name, value] : *written) variables[name] = value;
  return variables;
}

Assignment some_assignment() {
  return {.layout = *Layout::of({2, 1}),
          .self = {Rank{0}, 1},
          .protocol = "sdr",
          .options = {{"agree", "time,random"}, {"strict", "1"}},
          .launcher = Address::ipv4(127, 0, 0, 1, 4000),
          .run = std::string(32, 'a'),
          .key_descriptor = 5};
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_assignment_is_the_same_after_it_went_through_the_environment) {
  BOOST_TEST(rc::check("assignments", [] {
    const Assignment assignment = *any_assignment();
    const auto read = assignment_of(environment_of(assignment));
    RC_ASSERT((read && *read));
    RC_ASSERT((**read == assignment));
  }));
}

BOOST_AUTO_TEST_CASE(a_program_that_rdmc_run_has_not_started_has_no_assignment) {
  const auto read = assignment_of({{"PATH", "/bin"}, {"RDMC_RUN_OF_SOMETHING_ELSE", "1"}});
  BOOST_TEST((read && !*read));
}

BOOST_AUTO_TEST_CASE(a_damaged_variable_is_named) {
  const control::Variables whole = environment_of(some_assignment());
  BOOST_TEST(assignment_of(whole).has_value());
  const std::string long_text(kMostOptionBytes + 1, 'x');
  std::string many;
  for (std::size_t i = 0; i <= kMostOptions; ++i) many += "k" + std::to_string(i) + "=;";
  const std::pair<const char*, std::string> damages[] = {{"RDMC_RUN_LAUNCHER", ""},
                                                         {"RDMC_RUN_LAUNCHER", "localhost:1"},
                                                         {"RDMC_RUN_LAUNCHER", "1.2.3.4"},
                                                         {"RDMC_RUN_NAME", "abc"},
                                                         {"RDMC_RUN_NAME", std::string(32, 'G')},
                                                         {"RDMC_RUN_RANK", "2"},
                                                         {"RDMC_RUN_RANK", "-1"},
                                                         {"RDMC_RUN_RANK", ""},
                                                         {"RDMC_RUN_REPLICA", "2"},
                                                         {"RDMC_RUN_REPLICA", "x"},
                                                         {"RDMC_RUN_DEGREES", "2,,1"},
                                                         {"RDMC_RUN_DEGREES", ""},
                                                         {"RDMC_RUN_PROTOCOL", ""},
                                                         {"RDMC_RUN_PROTOCOL", "S D R"},
                                                         {"RDMC_RUN_OPTIONS", "strict"},
                                                         {"RDMC_RUN_OPTIONS", "=1"},
                                                         {"RDMC_RUN_OPTIONS", "a=1;a=2"},
                                                         {"RDMC_RUN_OPTIONS", "a=\n"},
                                                         {"RDMC_RUN_OPTIONS", "a=" + long_text},
                                                         {"RDMC_RUN_OPTIONS", many},
                                                         {"RDMC_RUN_KEY_FD", "x"},
                                                         {"RDMC_RUN_KEY_FD", "4294967295"}};
  for (const auto& [variable, value] : damages) {
    control::Variables variables = whole;
    variables[variable] = value;
    const auto read = assignment_of(variables);
    BOOST_TEST(failed_with(read, Errc::invalid_argument), variable << "=" << value);
    if (!read) BOOST_TEST(read.error().what.find(variable) != std::string::npos, read.error().what);
  }
  const auto written = variables_of(some_assignment());
  for (const auto& [variable, value] : *written) {
    control::Variables variables = whole;
    variables.erase(variable);
    const auto read = assignment_of(variables);
    BOOST_TEST(failed_with(read, Errc::invalid_argument), "without " << variable);
    if (!read) BOOST_TEST(read.error().what.find(variable) != std::string::npos, read.error().what);
  }
}

BOOST_AUTO_TEST_CASE(what_cannot_be_written_is_refused) {
  const auto refuses = [](auto change) {
    Assignment assignment = some_assignment();
    change(assignment);
    return failed_with(variables_of(assignment), Errc::invalid_argument);
  };
  BOOST_TEST(refuses([](Assignment& made) { made.options["agree"] = "a;b"; }));
  BOOST_TEST(refuses([](Assignment& made) { made.options["A"] = "1"; }));
  BOOST_TEST(refuses([](Assignment& made) { made.options["a"] = std::string(kMostOptionBytes + 1, 'x'); }));
  BOOST_TEST(refuses([](Assignment& made) { made.protocol = ""; }));
  BOOST_TEST(refuses([](Assignment& made) { made.run = "1"; }));
  BOOST_TEST(refuses([](Assignment& made) { made.self = {Rank{1}, 1}; }));
  BOOST_TEST(refuses([](Assignment& made) { made.key_descriptor = -1; }));
}

BOOST_AUTO_TEST_SUITE_END()

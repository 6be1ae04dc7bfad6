// A test case that cannot run on this machine must not look as if it had passed. Such a case stores the
// reason. If no test fails, the whole program then prints the reason and exits with status 77, which means
// "skipped".
#pragma once

#include <unistd.h>

#include <boost/test/results_collector.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <string>

namespace rdmc::testing {

struct SkippedCases {
  static std::string& reason() {
    static std::string text;
    return text;
  }
  ~SkippedCases() {
    namespace ut = boost::unit_test;
    const auto& all = ut::results_collector.results(ut::framework::master_test_suite().p_id);
    if (reason().empty() || all.p_assertions_failed != 0 || all.p_test_cases_failed != 0) return;
    std::fprintf(stderr, "%s\n", reason().c_str());
    std::fflush(nullptr);
    _exit(77);
  }
};
BOOST_TEST_GLOBAL_FIXTURE(SkippedCases);

}  // namespace rdmc::testing

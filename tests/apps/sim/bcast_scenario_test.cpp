// Tests the report of the scenario: the time, and that each requested fault occurs.
#include <boost/test/unit_test.hpp>

#include "apps/sim/scenario.hpp"

BOOST_AUTO_TEST_SUITE(bcast_scenario_test)

using namespace rdmc;
using namespace rdmc::sim_app;

BOOST_AUTO_TEST_CASE(virtual_seconds_run_from_the_send_to_the_last_delivery) {
  ScenarioOptions options{
      .members = 8, .size_bytes = 16 << 20, .block_bytes = 128 << 10, .rate = 1'000'000'000, .mtu = 9000};
  const ScenarioResult result = run_bcast(options);
  BOOST_TEST(result.violations.empty());
  // The lower bound is the time of k - 1 + ceil(log2 n) blocks at the link rate.
  const double bound = (128 - 1 + 3) * (128 << 10) * 8 / 1e9;
  BOOST_TEST(result.virtual_seconds > bound);
  BOOST_TEST(result.virtual_seconds < 2 * bound, result.virtual_seconds << " s, bound " << bound);
}

// This would fail in two cases. If several queue pairs shared a link block by block, each block would take
// several times as long. If they sent to the same receiver, they would overflow its link.
BOOST_AUTO_TEST_CASE(a_loss_free_run_is_within_five_percent_of_the_bound_and_headers_and_overflows_no_link) {
  // A packet has 8928 bytes of payload and 9028 bytes on the wire.
  constexpr double kHeaders = 1.011;
  for (const std::uint32_t members : {4U, 8U, 16U}) {
    ScenarioOptions options{.members = members,
                            .size_bytes = 64 << 20,
                            .block_bytes = 256 << 10,
                            .window_bytes = 64 << 20,
                            .rate = 10'000'000'000,
                            .mtu = 9000};
    const ScenarioResult result = run_bcast(options);
    BOOST_TEST(result.violations.empty());
    BOOST_TEST(result.virtual_seconds < 1.05 * kHeaders * result.bound_seconds,
               members << " members: " << result.virtual_seconds << " s, bound " << result.bound_seconds);
    BOOST_TEST(result.faults.at("queue_full") == 0u);
  }
}

BOOST_AUTO_TEST_CASE(a_disk_that_filled_up_is_counted_and_nothing_is_delivered_to_it) {
  ScenarioOptions options{.members = 2, .full_disks = 1};
  const ScenarioResult result = run_bcast(options);
  BOOST_TEST(result.violations.empty());
  BOOST_TEST(result.faults.at("full_disk") == 1u);
  BOOST_TEST(result.virtual_seconds == 0.0);
}

BOOST_AUTO_TEST_SUITE_END()

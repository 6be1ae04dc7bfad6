// Tests a switch that marks packets instead of dropping them. The receiver learns of the marks through its
// port and sends congestion notifications, so that the sender's queue stays short.
#include <boost/test/unit_test.hpp>

#include "tests/dataplane/fabric/sim_pair.hpp"

BOOST_AUTO_TEST_SUITE(congestion_test)

using namespace rdmc;
using namespace rdmc::fabric;
using testing::SimPair;

namespace {

constexpr std::size_t kBlock = 1 << 20, kBlocks = 40;

struct Outcome {
  double bits_per_second;
  roce::ConnectionCounters from, to;
  std::uint64_t marked, overflowed;
};

/// End 0 writes to end 1, or reads from end 1, over a link of 1 Gb/s. The link marks packets if its queue is
/// longer than `mark_bytes`.
Outcome transfer(bool read, bool selective, std::uint64_t mark_bytes) {
  SimPair::Options options;
  options.link = {.bits_per_second = 1'000'000'000, .queue_bytes = 150'000, .mark_bytes = mark_bytes};
  options.port.send_buffer_bytes = 512 << 10;
  // The host must not hold back packets, so that the queue of the link fills.
  options.port.holds_back = false;
  options.queue_pair.selective_repeat = selective;
  SimPair pair(options);
  std::vector<std::byte> here(kBlock), there(kBlock);
  const auto region =
      *pair.fabric(1).register_memory(there, MemoryUse::general, RemoteAccess::write | RemoteAccess::read);
  const Time start = pair.simulation.now();
  for (std::size_t i = 0; i < kBlocks; ++i) {
    if (read)
      BOOST_REQUIRE(pair.queue_pair(0).post_read({i, here, 0, region->remote_key()}));
    else
      BOOST_REQUIRE(
          pair.queue_pair(0).post_write({.work_id = i, .bytes = here, .remote_key = region->remote_key()}));
  }
  BOOST_REQUIRE(pair.run_until_completed(0, kBlocks));
  BOOST_TEST((pair.completions(0).back().status == WorkStatus::success));
  return {static_cast<double>(kBlock * kBlocks * 8) / (pair.simulation.now() - start).seconds(),
          pair.fabric(0).connection_counters(), pair.fabric(1).connection_counters(),
          pair.network.counters().marked, pair.simulation.faults()[sim::Fault::queue_full]};
}

}  // namespace

BOOST_AUTO_TEST_CASE(marks_become_notifications_and_notifications_a_smaller_window) {
  const Outcome deaf = transfer(false, false, 0), heard = transfer(false, false, 30'000);
  BOOST_TEST(deaf.marked == 0u);
  BOOST_TEST(deaf.from.notifications_received == 0u);
  BOOST_TEST(heard.marked > 0u);
  BOOST_TEST(heard.to.notifications_sent > 0u);
  BOOST_TEST(heard.from.notifications_received > 0u);
  BOOST_TEST(heard.from.notifications_received <= heard.to.notifications_sent);
  BOOST_TEST(heard.overflowed == 0u);
  BOOST_TEST(heard.bits_per_second > 0.8e9);
}

BOOST_AUTO_TEST_CASE(the_packets_of_selective_repeat_are_not_offered_for_marking) {
  const Outcome own = transfer(false, true, 30'000);
  BOOST_TEST(own.marked == 0u);
  BOOST_TEST(own.from.notifications_received == 0u);
}

BOOST_AUTO_TEST_CASE(the_responses_of_a_read_slow_down_too) {
  const Outcome deaf = transfer(true, false, 0), heard = transfer(true, false, 30'000);
  BOOST_TEST(heard.from.notifications_sent > 0u);
  BOOST_TEST(heard.to.notifications_received > 0u);
  BOOST_TEST(heard.overflowed < deaf.overflowed);
  BOOST_TEST(heard.bits_per_second > 0.3e9);
  BOOST_TEST_MESSAGE("deaf " << deaf.bits_per_second / 1e6 << " Mb/s, overflowed " << deaf.overflowed
                             << ", implied NAKs " << deaf.from.implied_naks << ", timeouts "
                             << deaf.from.timeouts << "; heard " << heard.bits_per_second / 1e6
                             << " Mb/s, overflowed " << heard.overflowed << ", implied NAKs "
                             << heard.from.implied_naks << ", timeouts " << heard.from.timeouts << ", marked "
                             << heard.marked << ", notifications " << heard.to.notifications_received);
}

BOOST_AUTO_TEST_SUITE_END()

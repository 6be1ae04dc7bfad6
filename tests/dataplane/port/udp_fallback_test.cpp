// Any kernel feature that the driver uses can be missing. Without the feature, the same bytes must arrive,
// only more slowly.
#include "tests/dataplane/port/udp_fixture.hpp"

BOOST_AUTO_TEST_SUITE(udp_fallback_test)

using namespace rdmc;
using namespace rdmc::port;
using namespace rdmc::port::test;

namespace {

struct Features {
  bool segmentation, receive_trains, io_uring;
};

UdpPortOptions without(const Features& missing, std::uint8_t host) {
  return {.address = loopback(host),
          .segmentation = missing.segmentation ? Use::off : Use::automatic,
          .receive_trains = missing.receive_trains ? Use::off : Use::automatic,
          .io_uring = missing.io_uring ? Use::off : Use::automatic};
}

/// Sends trains of many shapes over two flows. Returns the bytes of every datagram that arrived, for each
/// flow.
std::array<std::vector<Bytes>, 2> exchange(const Features& missing) {
  const auto sender = open(without(missing, 1));
  const auto receiver = open(without(missing, 2));
  const FlowId bulk = *receiver->open_flow();
  std::array<std::vector<Bytes>, 2> got;
  std::uint64_t seed = 0;
  for (const std::uint32_t segment : {1U, 100U, 1400U, 4136U, 20'000U}) {
    for (const std::uint32_t segments : {1U, 2U, 3U}) {
      const FlowId to = segments == 2 ? kSharedFlow : bulk;
      send(*sender, random_bytes(segment * segments - segment / 3, ++seed), segment,
           address_of(*receiver, to));
      for (Datagram& datagram : receive_datagrams(*receiver, segments))
        got.at(value_of(datagram.flow)).push_back(std::move(datagram.bytes));
    }
  }
  BOOST_TEST(sender->counters().send_failed == 0);
  BOOST_TEST(sender->counters().trains_sent == 15);
  BOOST_TEST(receiver->counters().datagrams_received == 30);
  return got;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_combination_of_missing_features_delivers_the_same_datagrams) {
  const auto expected = exchange({});
  BOOST_TEST(expected[0].size() + expected[1].size() == 30);
  for (unsigned missing = 1; missing < 8; ++missing) {
    const Features features{(missing & 1) != 0, (missing & 2) != 0, (missing & 4) != 0};
    BOOST_TEST_CONTEXT("missing " << missing) {
      BOOST_TEST((exchange(features) == expected));
    }
  }
}

BOOST_AUTO_TEST_CASE(info_says_what_is_missing) {
  const auto port = open(without({.segmentation = true, .receive_trains = true}, 1));
  BOOST_TEST(port->info().train_segments == 1U);
  BOOST_TEST(port->info().receive_train_segments == 1U);
  BOOST_TEST(!port->info().identification_counts_up);
}

BOOST_AUTO_TEST_CASE(scatter_lists_are_planned_without_train_offload_too) {
  const auto sender = open(without({.segmentation = true, .receive_trains = true}, 1));
  const auto receiver = open(without({.segmentation = true, .receive_trains = true}, 2));
  const Bytes sent = random_bytes(3 * 500, 7);
  Bytes header(20);
  Bytes payload(480);
  FixedPlan planner({{header.data(), header.size()}, {payload.data(), payload.size()}});
  send(*sender, sent, 500, receiver->info().address);
  for (std::ptrdiff_t i = 0; i < 3; ++i) {
    receive_until(*receiver, planner, [&](const RxTrain& train) {
      BOOST_TEST(train.planned);
      BOOST_TEST(train.segment_bytes == 500);
      return true;
    });
    BOOST_TEST(std::equal(payload.begin(), payload.end(), sent.begin() + i * 500 + 20));
  }
}

BOOST_AUTO_TEST_CASE(a_feature_that_this_kernel_has_can_be_insisted_on) {
  const auto automatic = open(1);
  if (automatic->info().train_segments == 1) return;
  const auto port = open_udp_port({.address = loopback(1), .segmentation = Use::on});
  BOOST_TEST(port.has_value());
}

BOOST_AUTO_TEST_SUITE_END()

#include "tests/dataplane/port/udp_fixture.hpp"

BOOST_AUTO_TEST_SUITE(udp_receive_test)

using namespace rdmc;
using namespace rdmc::port;
using namespace rdmc::port::test;

namespace {

constexpr std::uint32_t kHeader = 16;
constexpr std::uint32_t kPayload = 1000;
constexpr std::uint32_t kSegment = kHeader + kPayload;

/// A scatter list for trains of kSegment datagrams. The headers go to one memory block and the payloads to
/// another, without gaps.
struct ScatteredMemory {
  explicit ScatteredMemory(std::size_t segments) : headers(segments * kHeader), payload(segments * kPayload) {
    for (std::size_t i = 0; i < segments; ++i) {
      pieces.push_back({headers.data() + i * kHeader, kHeader});
      pieces.push_back({payload.data() + i * kPayload, kPayload});
    }
  }
  Bytes headers, payload;
  std::vector<iovec> pieces;
};

Bytes payload_of(const Bytes& train) {
  Bytes payload;
  for (std::size_t at = kHeader; at < train.size(); at += kSegment) {
    const std::size_t end = std::min<std::size_t>(train.size(), at + kPayload);
    payload.insert(payload.end(), train.begin() + static_cast<std::ptrdiff_t>(at),
                   train.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return payload;
}

}  // namespace

BOOST_AUTO_TEST_CASE(payload_lands_exactly_where_it_was_planned) {
  const auto sender = open(1);
  const auto receiver = open(2);
  const Bytes sent = random_bytes(5 * kSegment, 1);
  ScatteredMemory scatter_list(5);
  FixedPlan planner(scatter_list.pieces);
  send(*sender, sent, kSegment, receiver->info().address);
  receive_until(*receiver, planner, [&](const RxTrain& train) {
    BOOST_TEST(train.planned);
    BOOST_TEST(train.segment_bytes == kSegment);
    BOOST_TEST(train.total_bytes == sent.size());
    BOOST_TEST(train.pieces.size() == scatter_list.pieces.size());
    BOOST_TEST((gather(train) == sent));
    return true;
  });
  BOOST_TEST((scatter_list.payload == payload_of(sent)));
}

BOOST_AUTO_TEST_CASE(a_flow_that_gave_less_than_was_asked_for_is_not_asked_again_until_more_comes) {
  const auto sender = open(1);
  const auto receiver = open(2);
  NoPlan planner;
  for (const std::uint64_t round : {1, 2, 3}) {
    send(*sender, random_bytes(100, round), 100, receiver->info().address);
    receive_until(*receiver, planner, [](const RxTrain&) { return true; });
    const auto before = receiver->counters().waits;
    // If the flow could still contain a datagram, wait() would return at once and count nothing.
    receiver->wait(Time{});
    BOOST_TEST(receiver->counters().waits == before + 1);
  }
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_the_plan_spills_into_one_more_piece) {
  const auto sender = open(1);
  const auto receiver = open(2);
  const Bytes sent = random_bytes(9 * kSegment + 300, 2);
  ScatteredMemory scatter_list(4);
  FixedPlan planner(scatter_list.pieces);
  send(*sender, sent, kSegment, receiver->info().address);
  receive_until(*receiver, planner, [&](const RxTrain& train) {
    BOOST_TEST(train.planned);
    BOOST_TEST(train.pieces.size() == scatter_list.pieces.size() + 1);
    BOOST_TEST(train.pieces.back().iov_len == 5 * kSegment + 300);
    BOOST_TEST((gather(train) == sent));
    return true;
  });
}

BOOST_AUTO_TEST_CASE(a_wrong_plan_leaves_every_byte_readable_through_the_pieces) {
  const auto sender = open(1);
  const auto receiver = open(2);
  const Bytes sent = random_bytes(3 * 777 + 5, 3);
  ScatteredMemory scatter_list(20);
  FixedPlan planner(scatter_list.pieces);
  send(*sender, sent, 777, receiver->info().address);
  receive_until(*receiver, planner, [&](const RxTrain& train) {
    BOOST_TEST(train.planned);
    BOOST_TEST(train.segment_bytes == 777);
    BOOST_TEST((gather(train) == sent));
    return true;
  });
}

BOOST_AUTO_TEST_CASE(trains_of_one_burst_land_in_their_own_places) {
  const auto sender = open(1);
  const auto receiver = open(2);
  const Bytes sent = random_bytes(8 * kSegment, 4);
  ScatteredMemory scatter_list(8);

  struct LookingAhead : ScatterPlanner {
    explicit LookingAhead(ScatteredMemory& l) : scatter_list(l) {}
    std::size_t plan(FlowId, std::uint32_t ahead, std::span<iovec> pieces) override {
      const std::size_t first = (received + ahead) * 4;
      if (first >= scatter_list.pieces.size()) return 0;
      std::copy_n(scatter_list.pieces.begin() + static_cast<std::ptrdiff_t>(first), 4, pieces.begin());
      return 4;
    }
    ScatteredMemory& scatter_list;
    std::size_t received = 0;
  } planner(scatter_list);

  for (std::size_t i = 0; i < 4; ++i) {
    const auto from = sent.begin() + static_cast<std::ptrdiff_t>(i * 2 * kSegment);
    send(*sender, Bytes(from, from + 2 * kSegment), kSegment, receiver->info().address);
  }
  std::size_t arrived = 0;
  std::size_t burst_size = 0;
  while (arrived < 4) {
    burst_size = 0;
    receive_until(*receiver, planner, [&](const RxTrain& train) {
      BOOST_TEST(train.planned);
      ++burst_size;
      return true;
    });
    arrived += burst_size;
    planner.received = arrived;
  }
  BOOST_TEST((scatter_list.payload == payload_of(sent)));
}

BOOST_AUTO_TEST_CASE(a_planner_that_cannot_look_ahead_is_asked_again_rather_than_made_to_copy) {
  const auto sender = open(1);
  const auto receiver = open(2);
  for (std::uint64_t i = 0; i < 3; ++i)
    send(*sender, random_bytes(kSegment, i), kSegment, receiver->info().address);
  ScatteredMemory scatter_list(1);
  FixedPlan planner(scatter_list.pieces);
  for (int i = 0; i < 3; ++i) {
    receive_until(*receiver, planner, [](const RxTrain& train) {
      BOOST_TEST(train.planned);
      return true;
    });
  }
  BOOST_TEST(receiver->counters().trains_received == 3);
}

BOOST_AUTO_TEST_CASE(an_empty_datagram_is_counted_and_not_handed_up) {
  const auto sender = open(1);
  const auto receiver = open(2);
  send(*sender, {}, 1, receiver->info().address);
  send(*sender, random_bytes(40, 1), 40, receiver->info().address);
  const auto got = receive_datagrams(*receiver, 1);
  BOOST_TEST(got.size() == 1);
  BOOST_TEST(got[0].bytes.size() == 40);
  BOOST_TEST(receiver->counters().datagrams_received == 2);
}

BOOST_AUTO_TEST_CASE(each_flow_receives_only_what_was_sent_to_it_and_says_so) {
  const auto sender = open(1);
  const auto receiver = open(2);
  const FlowId own_source = *sender->open_flow();
  const FlowId a = *receiver->open_flow();
  const FlowId b = *receiver->open_flow();
  BOOST_TEST(receiver->udp_port(a) != receiver->udp_port(b));
  for (std::uint64_t i = 0; i < 30; ++i) {
    const FlowId to = i % 3 == 0 ? kSharedFlow : i % 3 == 1 ? a : b;
    send(*sender, Bytes(100, static_cast<std::byte>(value_of(to))), 100, address_of(*receiver, to),
         own_source);
  }
  const auto got = receive_datagrams(*receiver, 30);
  BOOST_TEST(got.size() == 30);
  std::array<int, 3> per_flow{};
  for (const Datagram& datagram : got) {
    ++per_flow.at(value_of(datagram.flow));
    BOOST_TEST((datagram.bytes == Bytes(100, static_cast<std::byte>(value_of(datagram.flow)))));
    BOOST_TEST(to_string(datagram.source) == to_string(address_of(*sender, own_source)));
  }
  BOOST_TEST((per_flow == std::array{10, 10, 10}));
}

BOOST_AUTO_TEST_CASE(a_busy_flow_does_not_starve_another) {
  const auto sender = open(1);
  const auto receiver = open(2);
  const FlowId busy = *receiver->open_flow();
  const FlowId quiet = *receiver->open_flow();
  for (int i = 0; i < 200; ++i) send(*sender, Bytes(50), 50, address_of(*receiver, busy));
  send(*sender, Bytes(50), 50, address_of(*receiver, quiet));
  std::size_t before = 0;
  NoPlan no_plan;
  receive_until(*receiver, no_plan, [&](const RxTrain& train) { return ++before, train.flow == quiet; });
  BOOST_TEST(before < 50);
}

BOOST_AUTO_TEST_CASE(idle_flows_cost_no_system_calls_of_their_own) {
  const auto sender = open(1);
  const auto receiver = open(2);
  for (int i = 0; i < 100; ++i) BOOST_REQUIRE(receiver->open_flow().has_value());
  receive_datagrams(*receiver, 0);
  send(*sender, Bytes(50), 50, receiver->info().address);
  receive_datagrams(*receiver, 1);
  const auto before = receiver->counters().system_calls;
  constexpr int kRounds = 50;
  for (int i = 0; i < kRounds; ++i) {
    send(*sender, Bytes(50), 50, receiver->info().address);
    receive_datagrams(*receiver, 1);
  }
  BOOST_TEST(receiver->counters().system_calls - before <= 8 * kRounds);
}

BOOST_AUTO_TEST_CASE(a_closed_flow_receives_nothing_and_its_id_serves_again) {
  const auto sender = open(1);
  const auto receiver = open(2);
  const FlowId first = *receiver->open_flow();
  const Address gone = address_of(*receiver, first);
  send(*sender, Bytes(10), 10, gone);
  NoPlan no_plan;
  std::array<RxTrain, 16> trains;
  receiver->receive_burst(no_plan, trains);
  receiver->close_flow(first);
  send(*sender, Bytes(20), 20,
       // The answer of the host (ICMP port unreachable) must cause no harm.
       gone);
  const FlowId second = *receiver->open_flow();
  BOOST_TEST(value_of(second) == value_of(first));
  send(*sender, Bytes(30), 30, address_of(*receiver, second));
  const auto got = receive_datagrams(*receiver, 1);
  BOOST_TEST(got[0].bytes.size() == 30);
  BOOST_TEST(sender->counters().send_failed == 0);
}

BOOST_AUTO_TEST_CASE(what_the_kernel_dropped_because_nobody_read_is_counted) {
  const auto sender = open(1);
  const auto receiver = open({.address = loopback(2), .receive_buffer_bytes = 64 * 1024});
  constexpr std::size_t kSent = 400;
  for (std::size_t i = 0; i < kSent; ++i) send(*sender, Bytes(1000), 1000, receiver->info().address);
  std::size_t received = 0;
  NoPlan no_plan;
  std::array<RxTrain, 16> trains;
  while (const std::size_t count = receiver->receive_burst(no_plan, trains)) received += count;
  BOOST_TEST(received < kSent);
  BOOST_TEST(received * 1000 >= receiver->info().receive_buffer_bytes / 2);
  // With this datagram, the kernel also reports how many datagrams it has dropped.
  send(*sender, Bytes(1000), 1000, receiver->info().address);
  receive_datagrams(*receiver, 1);
  BOOST_TEST(receiver->counters().receive_dropped == kSent - received);
}

BOOST_AUTO_TEST_CASE(a_flow_holds_at_least_what_the_port_promises) {
  const auto sender = open(1);
  const auto receiver = open({.address = loopback(2), .receive_buffer_bytes = 1 << 20});
  const std::uint32_t promised = receiver->info().receive_buffer_bytes;
  BOOST_TEST(promised >= 100'000U);
  constexpr std::uint32_t kDatagram = 4136;
  constexpr std::uint32_t kTrain = 15 * kDatagram;
  const std::uint32_t trains = promised / kTrain;
  for (std::uint32_t i = 0; i < trains; ++i)
    send(*sender, Bytes(kTrain), kDatagram, receiver->info().address);
  BOOST_TEST(receive_datagrams(*receiver, trains * 15).size() == trains * 15);
}

BOOST_AUTO_TEST_SUITE_END()

#include "lib/replica/run_messages.hpp"

#include <rapidcheck.h>
#include <boost/test/unit_test.hpp>

#include "tests/lib/replica/generators.hpp"

BOOST_AUTO_TEST_SUITE(run_messages_test)

using namespace rdmc;
using namespace rdmc::replica;
using namespace rdmc::testing;

namespace {

SendDifference any_difference() {
  SendDifference difference{.source = Rank{*rc::gen::arbitrary<std::uint32_t>()},
                            .channel = {.context = ContextId{*rc::gen::arbitrary<std::uint32_t>()},
                                        .rank = Rank{*rc::gen::arbitrary<std::uint32_t>()},
                                        .tag = *rc::gen::inRange(0, 1 << 30)},
                            .sequence = *rc::gen::arbitrary<std::uint32_t>(),
                            .versions = {}};
  for (std::uint32_t replica = 0; replica < *rc::gen::inRange(0u, 5u); ++replica) {
    difference.versions.push_back({.replica = replica});
    if (*rc::gen::arbitrary<bool>())
      difference.versions.back().sent = {.bytes = *rc::gen::arbitrary<std::uint64_t>(),
                                         .digest = *rc::gen::arbitrary<std::uint64_t>()};
  }
  return difference;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_message_means_the_same_when_it_is_read) {
  BOOST_TEST(rc::check("joins", [](std::uint32_t pid) {
    const Layout layout = *any_layout();
    const Join join{*any_run_name(), *any_process(layout), pid,
                    *any_address(),  EventNumber{pid},     EventNumber{pid + std::uint64_t{1}}};
    const auto read = decode_join(replica::encode(join), layout);
    RC_ASSERT((read && *read == join));
  }));
  BOOST_TEST(rc::check("messages of a process", [](const std::array<std::uint64_t, 4>& counters) {
    const FromProcess finished = Finished{{counters[0], counters[1], counters[2], counters[3]}};
    const FromProcess abort = Abort{*rc::gen::inRange(kLeastAbortCode, kMostAbortCode + 1)};
    const ForkNumber request{counters[0]};
    for (const FromProcess& message : {FromProcess(Done{}), finished, abort, FromProcess(any_difference()),
                                       FromProcess(ForkReady{request}), FromProcess(Forked{request}),
                                       FromProcess(ForkRefused{request, "why", counters[1] % 2 == 0})}) {
      const auto read = decode_from_process(replica::encode(message));
      RC_ASSERT((read && *read == message));
    }
  }));
  BOOST_TEST(rc::check("the start", [](std::uint64_t number) {
    const Layout layout = *any_layout();
    Started started{EventNumber{number}, {}};
    for (std::uint32_t i = 0; i < layout.processes(); ++i)
      started.addresses.push_back(*rc::gen::arbitrary<bool>() ? std::optional(*any_address()) : std::nullopt);
    const auto read = decode_to_process(replica::encode(ToProcess(started)), layout);
    RC_ASSERT((read && *read == ToProcess(started)));
  }));
  BOOST_TEST(rc::check("events", [](std::uint64_t number, const std::string& cause) {
    const Layout layout = *any_layout();
    const EventNumber at{number};
    const Died died{*any_process(layout), cause.substr(0, kMostCauseBytes)};
    const Joined joined{*any_process(layout), *any_address()};
    const Aborted aborted{*rc::gen::inRange(0, 256)};
    for (const ToProcess& message :
         {ToProcess(NumberedEvent{at, died}), ToProcess(NumberedEvent{at, joined}),
          ToProcess(NumberedEvent{at, aborted}), ToProcess(NumberedEvent{at, AllDone{}}), ToProcess(Noted{}),
          ToProcess(ForkRequest{ForkNumber{number}, *any_process(layout)}),
          ToProcess(ForkNoted{ForkNumber{number}})}) {
      const auto read = decode_to_process(replica::encode(message), layout);
      RC_ASSERT((read && *read == message));
    }
  }));
}

BOOST_AUTO_TEST_CASE(a_long_cause_is_cut) {
  const Layout layout;
  const NumberedEvent event{EventNumber{1}, Died{ProcessId{0}, std::string(kMostCauseBytes + 1, 'x')}};
  const auto read = decode_to_process(replica::encode(ToProcess(event)), layout);
  BOOST_REQUIRE(read.has_value());
  BOOST_TEST(std::get<Died>(std::get<NumberedEvent>(*read).event).cause == std::string(kMostCauseBytes, 'x'));
}

BOOST_AUTO_TEST_CASE(what_is_malformed_or_exceeds_a_bound_is_refused_by_name) {
  const Layout layout = *Layout::of({2, 1}), larger = *Layout::of({2, 2});
  const Address address = Address::ipv4(127, 0, 0, 1, 7);
  const Join join{std::string(32, 'a'), ProcessId{3}, 1, address};
  BOOST_TEST(decode_join(replica::encode(join), larger).has_value());
  BOOST_TEST(failed_with(decode_join(replica::encode(join), layout), Errc::protocol_error));
  BOOST_TEST(failed_with(decode_join({}, layout), Errc::version_mismatch));
  BOOST_TEST(failed_with(decode_join(bytes_of("\xFF\xFF"), layout), Errc::protocol_error));
  const auto refused = [&](Join wrong) {
    return failed_with(decode_join(replica::encode(wrong), larger), Errc::protocol_error);
  };
  BOOST_TEST(refused({"short", ProcessId{0}, 1, address}));
  BOOST_TEST(refused({std::string(32, 'a'), ProcessId{0}, 1, Address::ipv4(127, 0, 0, 1, 0)}));

  BOOST_TEST(failed_with(decode_from_process({}), Errc::protocol_error));
  BOOST_TEST(failed_with(decode_from_process(bytes_of("\xFF\xFF")), Errc::protocol_error));
  for (const int code : {0, 124, 255})
    BOOST_TEST(
        failed_with(decode_from_process(replica::encode(FromProcess(Abort{code}))), Errc::protocol_error));

  SendDifference difference{
      .source = Rank{0}, .channel = {}, .versions = {SendDifference::Version{.replica = kMostDegree}}};
  BOOST_TEST(
      failed_with(decode_from_process(replica::encode(FromProcess(difference))), Errc::protocol_error));
  difference.versions.assign(kMostDegree + 1, {});
  BOOST_TEST(
      failed_with(decode_from_process(replica::encode(FromProcess(difference))), Errc::protocol_error));
  difference.versions.clear();
  difference.channel.tag = -1;
  BOOST_TEST(
      failed_with(decode_from_process(replica::encode(FromProcess(difference))), Errc::protocol_error));

  const auto to_process = [&](const ToProcess& message) {
    return failed_with(decode_to_process(replica::encode(message), layout), Errc::protocol_error);
  };
  BOOST_TEST(failed_with(decode_to_process({}, layout), Errc::protocol_error));
  BOOST_TEST(failed_with(decode_to_process(bytes_of("\xFF\xFF"), layout), Errc::protocol_error));
  BOOST_TEST(to_process(Started{{}, {address, address}}));
  BOOST_TEST(to_process(Started{{}, {address, address, Address::ipv4(1, 2, 3, 4, 0)}}));
  BOOST_TEST(to_process(NumberedEvent{{}, Died{ProcessId{3}, ""}}));
  BOOST_TEST(to_process(NumberedEvent{{}, Joined{ProcessId{3}, address}}));
  BOOST_TEST(to_process(NumberedEvent{{}, Joined{ProcessId{0}, Address{}}}));
  BOOST_TEST(to_process(NumberedEvent{{}, Aborted{256}}));
  // The parent must be another replica of the same rank.
  BOOST_TEST(to_process(NumberedEvent{{}, Recovering{ProcessId{0}, ProcessId{0}}}));
  BOOST_TEST(to_process(NumberedEvent{{}, Recovering{ProcessId{0}, ProcessId{2}}}));
  BOOST_TEST(to_process(ForkRequest{{}, ProcessId{3}}));
}

BOOST_AUTO_TEST_SUITE_END()

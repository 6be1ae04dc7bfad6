#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>

#include "controlplane/store/store_messages.hpp"
#include "tests/controlplane/store/store_client.hpp"

namespace rdmc::store {
BOOST_AUTO_TEST_SUITE(view_map_test)
namespace {

SwapCommand any_command() {
  return {std::string(1, *rc::gen::inRange('a', 'd')),
          testing::view_of(*rc::gen::inRange<std::uint64_t>(1, 5), *rc::gen::inRange<std::uint64_t>(1, 3))};
}

BOOST_AUTO_TEST_CASE(of_any_commands_each_epoch_gets_the_first_that_followed_the_one_before) {
  BOOST_TEST(rc::check([] {
    ViewMap map;
    std::map<std::string, std::vector<view::View>> model;  // all views that stood, by epoch
    for (int i = *rc::gen::inRange(0, 60); i > 0; --i) {
      const SwapCommand command = any_command();
      auto& stood = model[command.group];
      const bool next = value_of(command.next.epoch) == stood.size() + 1;
      const bool again = !stood.empty() && stood.back() == command.next;
      if (next) stood.push_back(command.next);
      const auto result = map.apply(command);
      RC_ASSERT(result.swapped == (next || again));
      RC_ASSERT(result.current == (stood.empty() ? view::View{} : stood.back()));
    }
    for (const auto& [group, stood] : model)
      RC_ASSERT(map.read(group) == (stood.empty() ? view::View{} : stood.back()));
  }));
}

BOOST_AUTO_TEST_CASE(a_snapshot_and_a_log_bring_back_what_was_there) {
  BOOST_TEST(rc::check([] {
    ViewMap map, other;
    for (int i = *rc::gen::inRange(0, 20); i > 0; --i) {
      const SwapCommand command = any_command();
      map.apply(command);
      const auto read_back = decode_command(encode(command)).value();
      RC_ASSERT(read_back.group == command.group);
      RC_ASSERT(read_back.next == command.next);
    }
    other.apply(any_command());
    RC_ASSERT(other.restore(map.encode()).has_value());
    RC_ASSERT(other.encode() == map.encode());
  }));
}

BOOST_AUTO_TEST_CASE(requests_and_replies_are_heard_as_they_were_said) {
  const Request swap{7, SwapCommand{"g", testing::view_of(3, 1)}};
  const auto heard = decode_request(encode(swap)).value();
  BOOST_TEST(heard.id == 7u);
  BOOST_TEST((std::get<SwapCommand>(heard.body).next == testing::view_of(3, 1)));
  BOOST_TEST(std::get<ReadRequest>(decode_request(encode(Request{1, ReadRequest{"g"}})).value().body).group ==
             "g");
  BOOST_TEST(
      std::get<WatchRequest>(decode_request(encode(Request{1, WatchRequest{"g"}})).value().body).group ==
      "g");
  BOOST_TEST(
      std::holds_alternative<ListRequest>(decode_request(encode(Request{1, ListRequest{}})).value().body));
  const Reply reply{.id = 9, .swapped = true, .groups = {{"g", testing::view_of(3, 1)}}};
  const auto told = decode_reply(encode(reply)).value();
  BOOST_TEST(told.id == 9u);
  BOOST_TEST(told.swapped);
  BOOST_TEST((told.groups.at(0).view == testing::view_of(3, 1)));
}

BOOST_AUTO_TEST_CASE(groups_without_a_proper_name_and_damaged_bytes_are_refused_without_harm) {
  BOOST_TEST(!decode_request(encode(Request{1, ReadRequest{""}})));
  BOOST_TEST(!decode_request(encode(Request{1, ReadRequest{std::string(kMaxGroupBytes + 1, 'g')}})));
  const auto good = encode(Reply{.id = 9, .groups = {{"g", testing::view_of(3, 1)}}});
  ViewMap map;
  BOOST_TEST(rc::check([&] {
    auto bytes = good;
    for (int i = *rc::gen::inRange(1, 6); i > 0; --i)
      bytes[*rc::gen::inRange<std::size_t>(0, bytes.size())] = std::byte{*rc::gen::arbitrary<std::uint8_t>()};
    bytes.resize(*rc::gen::inRange<std::size_t>(0, bytes.size() + 1));
    static_cast<void>(decode_request(bytes));
    static_cast<void>(decode_reply(bytes));
    static_cast<void>(decode_command(bytes));
    static_cast<void>(map.restore(bytes));
  }));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::store

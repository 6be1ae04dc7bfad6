#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>

#include "controlplane/store/etcd_codec.hpp"
#include "tests/controlplane/store/store_client.hpp"

namespace rdmc::store {
BOOST_AUTO_TEST_SUITE(etcd_codec_test)
namespace {

// The answer of the gateway of etcd 3.4.23 for a range without keys.
constexpr const char* kEmpty = R"({"header":{"cluster_id":"14841639068965178418","revision":"1"}})";

BOOST_AUTO_TEST_CASE(a_range_without_keys_is_empty_and_a_txn_that_was_done_says_its_revision) {
  BOOST_TEST(parse_range(kEmpty).value().empty());
  const auto swap = parse_swap(R"({"header":{"revision":"12"},"succeeded":true,"responses":[{}]})").value();
  BOOST_TEST(swap.swapped);
  BOOST_TEST(swap.entry.revision == 12);
}

BOOST_AUTO_TEST_CASE(a_txn_that_was_not_done_says_what_stands_or_that_nothing_does) {
  const auto nothing =
      parse_swap(R"({"header":{"revision":"3"},"responses":[{"response_range":{"header":{}}}]})").value();
  BOOST_TEST(!nothing.swapped);
  BOOST_TEST((nothing.entry.view == view::View{}));
  BOOST_TEST(nothing.entry.revision == 0);
}

BOOST_AUTO_TEST_CASE(keys_and_values_travel_in_base64) {
  BOOST_TEST(range_request("/rdmc/views/g") == R"({"key":"L3JkbWMvdmlld3MvZw=="})");
  BOOST_TEST(prefix_request("/rdmc/views/") ==
             R"({"key":"L3JkbWMvdmlld3Mv","range_end":"L3JkbWMvdmlld3Mw"})");
  BOOST_TEST(watch_request("g") == R"({"create_request":{"key":"Zw=="}})");
  const std::string swap = swap_request("g", 41, testing::view_of(1, 7));
  BOOST_TEST(swap.contains(R"("mod_revision":"41")"));
  BOOST_TEST(swap.contains(R"("target":"MOD")"));
}

BOOST_AUTO_TEST_CASE(a_value_that_is_no_view_is_corrupt_and_what_is_not_etcds_is_a_protocol_error) {
  const auto range = parse_range(
      R"({"header":{"revision":"2"},"kvs":[{"key":"Zw==","mod_revision":"2","value":"////"}],"count":"1"})");
  BOOST_TEST((range.error().code == Errc::corrupt));
  for (const char* text :
       {"", "{", "[]", "null", "7", R"({"kvs":[]})", R"({"header":[]})", R"({"header":{"revision":2}})",
        R"({"header":{"revision":"2"},"kvs":7})", R"({"header":{"revision":"2"},"kvs":[7]})"})
    BOOST_TEST((parse_range(text).error().code == Errc::protocol_error), text);
  BOOST_TEST((parse_swap(kEmpty).error().code == Errc::protocol_error));
}

BOOST_AUTO_TEST_CASE(an_event_of_a_watch_shows_an_epoch_unless_it_is_in_pieces_or_tells_of_an_end) {
  const std::string event =
      R"({"result":{"header":{"revision":"2"},"events":[{"kv":{"key":"Zw==","mod_revision":"2","value":"CAE="}}]}})";
  BOOST_TEST((watched_epoch(event) == Epoch{1}));
  BOOST_TEST(!watched_epoch(event.substr(0, 60)));
  BOOST_TEST(!watched_epoch(R"({"result":{"created":true}})"));
  BOOST_TEST(
      !watched_epoch(R"({"result":{"events":[{"type":"DELETE","kv":{"key":"Zw==","mod_revision":"2"}}]}})"));
}

BOOST_AUTO_TEST_CASE(anything_at_all_is_taken_without_harm) {
  const std::string good =
      R"({"header":{"revision":"2"},"responses":[{"response_range":{"kvs":[{"key":"Zw==","mod_revision":"2","value":"CAE="}]}}]})";
  BOOST_TEST(parse_swap(good).has_value());
  BOOST_TEST(rc::check([&] {
    std::string text = good;
    for (int i = *rc::gen::inRange(1, 6); i > 0; --i)
      text[*rc::gen::inRange<std::size_t>(0, text.size())] = *rc::gen::arbitrary<char>();
    static_cast<void>(parse_swap(text));
    static_cast<void>(parse_range(text));
    static_cast<void>(watched_epoch(text));
    for (const char c : error_text(text)) RC_ASSERT(static_cast<unsigned char>(c) >= 0x20);
  }));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::store

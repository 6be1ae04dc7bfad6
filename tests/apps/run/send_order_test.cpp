#include "apps/run/send_order.hpp"

#include <rapidcheck.h>
#include <stdlib.h>
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

BOOST_AUTO_TEST_SUITE(send_order_test)

using namespace rdmc;
using namespace rdmc::run;
using replica::ContextId;
using replica::LoggedSend;
using replica::SendLog;

namespace {

std::vector<LoggedSend> any_sends() {
  std::vector<LoggedSend> sends(*rc::gen::inRange<std::size_t>(1, 40));
  for (auto& send : sends)
    send = {.context = ContextId{*rc::gen::inRange(0u, 2u)},
            .to = *rc::gen::inRange(0u, 3u),
            .tag = *rc::gen::inRange(0, 3),
            .bytes = *rc::gen::inRange<std::uint64_t>(0, 3),
            .digest = *rc::gen::inRange<std::uint64_t>(0, 100)};
  return sends;
}

/// Another order of the same sends. The order in each channel is the same.
std::vector<LoggedSend> in_another_order(const std::vector<LoggedSend>& sends) {
  std::map<std::tuple<ContextId, std::uint32_t, std::int32_t>, std::vector<LoggedSend>> channels;
  for (const auto& send : sends) channels[{send.context, send.to, send.tag}].push_back(send);
  std::vector<LoggedSend> made;
  while (!channels.empty()) {
    auto channel = std::next(channels.begin(), *rc::gen::inRange<int>(0, static_cast<int>(channels.size())));
    made.push_back(channel->second.front());
    channel->second.erase(channel->second.begin());
    if (channel->second.empty()) channels.erase(channel);
  }
  return made;
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_order_of_the_same_sends_is_found_to_be_the_same_in_each_channel) {
  BOOST_TEST(rc::check([] {
    const auto first = any_sends(), second = in_another_order(first);
    const auto result = compare_sends(first, second);
    const auto alike = [](const LoggedSend& a, const LoggedSend& b) {
      return a.context == b.context && a.to == b.to && a.tag == b.tag && a.bytes == b.bytes;
    };
    const auto differ = std::ranges::mismatch(first, second, alike);
    const bool is_same = differ.in1 == first.end();
    RC_ASSERT(result.order == (is_same ? SendOrder::process : SendOrder::channel));
    RC_ASSERT(result.mismatch.has_value() == !is_same);
    if (!is_same) RC_ASSERT(result.mismatch->call == static_cast<std::size_t>(differ.in1 - first.begin()));
    RC_ASSERT(!result.content);
  }));
}

BOOST_AUTO_TEST_CASE(a_message_that_is_missing_longer_or_elsewhere_is_named) {
  BOOST_TEST(rc::check([] {
    const auto first = any_sends();
    auto second = in_another_order(first);
    const auto index = *rc::gen::inRange<std::size_t>(0, second.size());
    const auto changed = second.begin() + static_cast<std::ptrdiff_t>(index);
    switch (*rc::gen::inRange(0, 3)) {
      case 0: changed->bytes += 100; break;
      case 1: changed->tag += 100; break;
      default: second.push_back({.context = ContextId{0}, .to = 9, .tag = 9});
    }
    const auto result = compare_sends(first, second);
    RC_ASSERT(result.order == SendOrder::none);
    RC_ASSERT(result.mismatch.has_value());
    RC_ASSERT(result.mismatch->first != result.mismatch->second);
  }));
}

BOOST_AUTO_TEST_CASE(content_that_differs_does_not_count_as_another_message) {
  BOOST_TEST(rc::check([] {
    const auto first = any_sends();
    auto second = first;
    const auto index = *rc::gen::inRange<std::size_t>(0, second.size());
    second[index].digest += 1000;
    const auto result = compare_sends(first, second);
    RC_ASSERT((result.order == SendOrder::process && !result.mismatch));
    RC_ASSERT((result.content && result.content->call == index));
  }));
}

BOOST_AUTO_TEST_CASE(a_log_is_read_as_it_was_written_and_a_damaged_one_is_refused) {
  std::string folder = (std::filesystem::temp_directory_path() / "rdmc-send-log-XXXXXX").string();
  BOOST_REQUIRE(::mkdtemp(folder.data()) != nullptr);
  {
    auto log = SendLog::create(folder, Rank{3});
    BOOST_REQUIRE(log.has_value());
    std::vector<std::byte> bytes;
    for (int i = 0; i < 5000; ++i) {
      bytes.assign(static_cast<std::size_t>(i % 100), std::byte{1});
      log->add(ContextId{2}, 7, i, bytes);
    }
    BOOST_REQUIRE(log->flush().has_value());
    BOOST_TEST(!SendLog::create(folder, Rank{3}).has_value());
  }
  const auto read = SendLog::read(folder, Rank{3});
  BOOST_REQUIRE(read.has_value());
  BOOST_REQUIRE_EQUAL(read->size(), 5000U);
  for (int i = 0; i < 5000; ++i) {
    const auto& send = (*read)[static_cast<std::size_t>(i)];
    BOOST_REQUIRE((send.context == ContextId{2} && send.to == 7 && send.tag == i));
    BOOST_REQUIRE_EQUAL(send.bytes, static_cast<std::uint64_t>(i % 100));
  }
  std::filesystem::resize_file(folder + "/3", 100);
  const auto cut = SendLog::read(folder, Rank{3});
  BOOST_TEST((!cut && cut.error().code == Errc::protocol_error));
  BOOST_TEST(!SendLog::read(folder, Rank{4}).has_value());
  std::filesystem::remove_all(folder);
}

BOOST_AUTO_TEST_SUITE_END()

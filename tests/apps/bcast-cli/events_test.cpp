#include "apps/bcast-cli/events.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>
#include <limits>
#include <nlohmann/json.hpp>

BOOST_AUTO_TEST_SUITE(events_test)

using namespace rdmc;
using namespace rdmc::bcast;
using nlohmann::json;

namespace {

/// Checks that the line contains exactly one newline, at its end. Parses the line as one JSON object.
json parsed(const std::string& line) {
  BOOST_REQUIRE(line.ends_with('\n'));
  BOOST_REQUIRE(line.find('\n') == line.size() - 1);
  return json::parse(line);
}

bool has_control_characters(const std::string& text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return true;
  }
  return false;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_receiver_is_told_as_the_contract_says) {
  BOOST_TEST(json_line(ReceiverEvent{"10.0.0.5:7700", session::Status::ok, 1024, 0.25,
                                     "00112233445566778899aabbccddeeff", ""}) ==
             R"({"event":"receiver","host":"10.0.0.5:7700","status":"ok","bytes":1024,"seconds":0.25,)"
             R"("digest":"00112233445566778899aabbccddeeff","cause":""})"
             "\n");
  const auto failed =
      parsed(json_line(ReceiverEvent{"h:1", session::Status::failed, 5, 1, "", "fell silent"}));
  BOOST_TEST(failed["status"] == "failed");
  BOOST_TEST(failed["cause"] == "fell silent");
  BOOST_TEST(parsed(json_line(ReceiverEvent{"h:1", session::Status::refused, 0, 1, "",
                                            "wrong key"}))["status"] == "refused");
}

BOOST_AUTO_TEST_CASE(people_read_who_what_and_how_fast_or_why_not) {
  BOOST_TEST(text_line(ReceiverEvent{"h:1", session::Status::ok, 1 << 20, 0.5, "00ff", ""}) ==
             "h:1  ok  1.00 MiB in 0.500 s  16.8 Mb/s  00ff\n");
  BOOST_TEST(text_line(ReceiverEvent{"h:1", session::Status::ok, 0, 0.5, "", ""}) == "h:1  ok\n");
  BOOST_TEST(text_line(ReceiverEvent{"h:1", session::Status::failed, 0, 0.5, "", "it burnt"}) ==
             "h:1  failed: it burnt\n");
}

BOOST_AUTO_TEST_CASE(the_fabric_is_told_with_the_reason_for_it) {
  const PlanEvent plan{"two_trees", 64 << 10, 7};
  BOOST_TEST(json_line(plan) == R"({"event":"plan","algorithm":"two_trees","block_size":65536,"receivers":7})"
                                "\n");
  BOOST_TEST(text_line(plan) == "plan: two_trees to 7 receivers, blocks of 64.0 KiB\n");
  BOOST_TEST(json_line(StragglerEvent{"h1\n"}) == R"({"event":"straggler","host":"h1\n"})"
                                                  "\n");
  BOOST_TEST(text_line(StragglerEvent{"h1\n"}) ==
             "h1\\x0a  is slower than the others, or far from them; they go on without waiting for it\n");
  const FabricEvent event{"udp", "dpdk cannot be used: no \"hugepages\""};
  const auto told = parsed(json_line(event));
  BOOST_TEST(told["event"] == "fabric");
  BOOST_TEST(told["fabric"] == "udp");
  BOOST_TEST(told["reason"] == event.reason);
  BOOST_TEST(text_line(event) == "fabric: udp (dpdk cannot be used: no \"hugepages\")\n");
}

BOOST_AUTO_TEST_CASE(the_summary_counts_and_computes_the_goodput) {
  SummaryEvent summary;
  for (const auto status :
       {session::Status::ok, session::Status::ok, session::Status::failed, session::Status::refused})
    summary.count(status);
  summary.bytes = 1'000'000'000;
  summary.seconds = 2;
  BOOST_TEST(
      json_line(summary) ==
      R"({"event":"summary","ok":2,"failed":1,"refused":1,"bytes":1000000000,"seconds":2.0,"goodput_gbps":4.0})"
      "\n");
  const auto text = text_line(summary);
  BOOST_TEST(text == "2 ok, 1 failed, 1 refused; 954 MiB in 2.0 s, 4.00 Gb/s to each, 8.00 Gb/s in all\n");
}

BOOST_AUTO_TEST_CASE(nobody_served_is_no_goodput) {
  BOOST_TEST(parsed(json_line(SummaryEvent{0, 3, 0, 1000, 1, false}))["goodput_gbps"] == 0.0);
  BOOST_TEST(parsed(json_line(SummaryEvent{1, 0, 0, 1000, 0, false}))["goodput_gbps"] == 0.0);
  BOOST_TEST(parsed(json_line(SummaryEvent{1, 0, 0, 0, 0, true}))["dry_run"] == true);
}

BOOST_AUTO_TEST_CASE(a_sum_without_receivers_says_why) {
  BOOST_TEST(parsed(json_line(SummaryEvent{.cause = "cannot open it"}))["cause"] == "cannot open it");
  BOOST_TEST(!parsed(json_line(SummaryEvent{.ok = 1})).contains("cause"));
}

BOOST_AUTO_TEST_CASE(progress_names_the_slowest_only_when_there_is_one) {
  ProgressEvent event{512, 1024, 0.5, 8e9, 3, 1, "n2:7700", 100};
  const auto line = parsed(json_line(event));
  BOOST_TEST(line["bytes"] == 512);
  BOOST_TEST(line["total_bytes"] == 1024);
  BOOST_TEST(line["goodput_gbps"] == 8.0);
  BOOST_TEST(line["slowest_host"] == "n2:7700");
  event.slowest_host.clear();
  BOOST_TEST(!parsed(json_line(event)).contains("slowest_host"));
}

BOOST_AUTO_TEST_CASE(no_infinity_gets_into_json) {
  ProgressEvent event;
  event.seconds = std::numeric_limits<double>::infinity();
  event.bits_per_second = std::numeric_limits<double>::quiet_NaN();
  BOOST_TEST(parsed(json_line(event))["seconds"].is_number());
  BOOST_TEST(parsed(json_line(event))["goodput_gbps"].is_number());
}

BOOST_AUTO_TEST_CASE(any_bytes_in_a_cause_make_one_valid_line_and_harmless_text) {
  BOOST_TEST(rc::check([] {
    const auto bytes = *rc::gen::arbitrary<std::string>();
    const ReceiverEvent event{bytes, session::Status::failed, 0, 0, "", bytes};
    const auto line = json_line(event);
    RC_ASSERT(line.find('\n') == line.size() - 1);
    RC_ASSERT(json::parse(line)["event"] == "receiver");
    auto text = text_line(event);
    text.pop_back();
    RC_ASSERT(!has_control_characters(text));
    RC_ASSERT(json::parse(json(text).dump()) == text);  // dump() throws if the text is not valid UTF-8
  }));
}

BOOST_AUTO_TEST_SUITE_END()

#include "controlplane/connect/framing.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>

namespace rdmc::control {
BOOST_AUTO_TEST_SUITE(framing_test)
namespace {

Message message_of(const std::vector<std::uint8_t>& values) {
  Message message(values.size());
  std::ranges::transform(values, message.begin(), [](std::uint8_t v) { return static_cast<std::byte>(v); });
  return message;
}

void append(Message& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace

BOOST_AUTO_TEST_CASE(messages_come_out_whole_and_in_order_however_the_stream_is_cut) {
  BOOST_TEST(rc::check([](const std::vector<std::vector<std::uint8_t>>& contents, bool goodbye) {
    std::deque<Message> sent;
    Message stream;
    for (const auto& each : contents) {
      sent.push_back(message_of(each));
      append(stream, encode_length(static_cast<std::uint32_t>(each.size())));
      append(stream, sent.back());
    }
    if (goodbye) append(stream, encode_length(kGoodbye));
    FrameReader reader(1 << 20);
    std::deque<Message> got;
    std::span<const std::byte> rest = stream;
    while (!rest.empty()) {
      const auto cut = *rc::gen::inRange<std::size_t>(1, std::min<std::size_t>(rest.size(), 9) + 1);
      RC_ASSERT(reader.feed(rest.first(cut), got).has_value());
      rest = rest.subspan(cut);
    }
    RC_ASSERT(got == sent);
    RC_ASSERT(reader.ended() == goodbye);
    RC_ASSERT(!reader.mid_message());
  }));
}

BOOST_AUTO_TEST_CASE(a_message_at_the_limit_passes_and_one_byte_more_is_refused_before_its_body_comes) {
  std::deque<Message> got;
  FrameReader reader(100);
  Message stream;
  append(stream, encode_length(100));
  append(stream, Message(100));
  BOOST_TEST(reader.feed(stream, got).has_value());
  BOOST_TEST_REQUIRE(got.size() == 1u);
  BOOST_TEST(got.front().size() == 100u);
  const auto refused = reader.feed(encode_length(101), got);
  BOOST_TEST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().code == Errc::protocol_error));
  BOOST_TEST(refused.error().what.find("101") != std::string::npos, refused.error().what);
}

BOOST_AUTO_TEST_CASE(part_of_a_length_counts_as_a_message_begun) {
  std::deque<Message> got;
  FrameReader reader(100);
  BOOST_TEST(!reader.mid_message());
  const auto length = encode_length(5);
  BOOST_TEST(reader.feed(std::span(length).first(1), got).has_value());
  BOOST_TEST(reader.mid_message());
}

BOOST_AUTO_TEST_CASE(what_follows_a_goodbye_is_ignored) {
  std::deque<Message> got;
  FrameReader reader(100);
  Message stream;
  append(stream, encode_length(kGoodbye));
  append(stream, encode_length(101));
  BOOST_TEST(reader.feed(stream, got).has_value());
  BOOST_TEST(reader.ended());
  BOOST_TEST(got.empty());
}

BOOST_AUTO_TEST_CASE(a_preamble_of_our_version_is_accepted_and_of_another_refused_naming_both) {
  BOOST_TEST(check_preamble(encode_preamble(7), 7).has_value());
  const auto refused = check_preamble(encode_preamble(258), 7);
  BOOST_TEST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().code == Errc::version_mismatch));
  BOOST_TEST(refused.error().what.find("258") != std::string::npos);
  BOOST_TEST(refused.error().what.find("version 7") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_reserved_bytes_of_a_preamble_do_not_matter) {
  auto preamble = encode_preamble(1);
  preamble[6] = preamble[7] = std::byte{0xFF};
  BOOST_TEST(check_preamble(preamble, 1).has_value());
}

BOOST_AUTO_TEST_CASE(an_excerpt_is_short_and_printable_whatever_the_peer_said) {
  BOOST_TEST(excerpt(message_of({'G', 'E', 'T', ' ', 0x1B, 0xFF})) == "'GET \\x1b\\xff'");
  BOOST_TEST(excerpt(Message(1000, std::byte{'a'})) == "'aaaaaaaaaaaaaaaa...'");
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::control

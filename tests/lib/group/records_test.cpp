#include "lib/group/records.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(records_test)

using namespace rdmc;
using namespace rdmc::group;

namespace {

std::vector<std::byte> bytes_of(const Record& record) {
  std::vector<std::byte> bytes(encoded_bytes(record));
  BOOST_REQUIRE(encode(record, bytes) == bytes.size());
  return bytes;
}

Record any_record() {
  static const std::vector<std::byte> payload(300, std::byte{7});
  const auto number = [] { return *rc::gen::arbitrary<std::uint64_t>(); };
  switch (*rc::gen::inRange(0, 10)) {
    case 0: return OfGroup{{number(), number(), *rc::gen::inRange<std::uint64_t>(0, 3)}};
    case 1:
      return Announcement{number(), number(),
                          *rc::gen::arbitrary<bool>()
                              ? std::optional(relay::MessagePlan{*rc::gen::elementOf(relay::kAlgorithms),
                                                                 *rc::gen::positive<std::uint32_t>()})
                              : std::nullopt};
    case 2:
      return GrantRecord{number(),
                         {.limit = *rc::gen::positive<std::uint64_t>(),
                          .remote_address = number(),
                          .slots = *rc::gen::positive<std::uint64_t>(),
                          .key = RemoteKey{*rc::gen::arbitrary<std::uint32_t>()},
                          .slot_id = *rc::gen::arbitrary<std::uint16_t>()}};
    case 3: return SmallMessage{number(), std::span(payload).first(*rc::gen::inRange(0u, 300u))};
    case 4: {
      Report report{number(), number(), number(), *rc::gen::arbitrary<bool>(), number(), std::nullopt};
      if (*rc::gen::arbitrary<bool>())
        report.holder = {.member = Rank{*rc::gen::positive<std::uint32_t>()}, .message = number()};
      return report;
    }
    case 7: return MappedMessage{number(), {*rc::gen::arbitrary<std::uint32_t>(), number()}, number()};
    case 8: return NotMade{};
    case 5: return Verdict{number(), *rc::gen::arbitrary<bool>()};
    case 6:
      return Note{Rank{*rc::gen::inRange(0u, 9u)}, *rc::gen::arbitrary<bool>(), std::span(payload).first(20)};
    default:
      return End{.is_answer = *rc::gen::arbitrary<bool>(),
                 .failed = *rc::gen::arbitrary<bool>() ? std::optional(Rank{*rc::gen::inRange(0u, 9u)})
                                                       : std::nullopt,
                 .code = *rc::gen::element(Errc::cancelled, Errc::peer_failed, Errc::resource_limit),
                 .what = *rc::gen::element("", "gone", "it made no such group")};
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_record_is_a_kind_a_length_and_big_endian_fields_in_the_documented_order) {
  const auto bytes = bytes_of(Announcement{.message = 0x0102, .bytes = 0x030405});
  const std::vector<int> expected{2, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 3, 4, 5};
  BOOST_REQUIRE(bytes.size() == expected.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) BOOST_TEST(std::to_integer<int>(bytes[i]) == expected[i]);
}

BOOST_AUTO_TEST_CASE(a_row_of_records_is_read_as_it_was_written) {
  BOOST_TEST(rc::check([] {
    std::vector<Record> written;
    std::vector<std::byte> bytes;
    for (int i = *rc::gen::inRange(0, 8); i > 0; --i) {
      written.push_back(any_record());
      const auto one = bytes_of(written.back());
      bytes.insert(bytes.end(), one.begin(), one.end());
    }
    RecordReader reader(bytes);
    for (const Record& record : written) {
      RC_ASSERT(!reader.done());
      const auto read = reader.next();
      RC_ASSERT(read.has_value());
      RC_ASSERT(*read == record);
    }
    RC_ASSERT(reader.done());
  }));
}

BOOST_AUTO_TEST_CASE(a_long_text_is_cut_and_never_refused) {
  const std::string text(1000, 'x');
  const auto bytes = bytes_of(End{.what = text});
  const auto read = RecordReader(bytes).next();
  BOOST_REQUIRE(read.has_value());
  BOOST_TEST(std::get<End>(*read).what == text.substr(0, kMostEndText));
}

BOOST_AUTO_TEST_CASE(records_cut_off_or_of_a_wrong_length_kind_or_padding_are_refused) {
  const auto refused = [](std::span<const std::byte> bytes) {
    const auto record = RecordReader(bytes).next();
    return !record && record.error().code == Errc::protocol_error;
  };
  const auto good = bytes_of(Announcement{1, 2, relay::MessagePlan{relay::Algorithm::chain, 4096}});
  for (std::size_t length = 1; length < good.size(); ++length)
    BOOST_TEST(refused(std::span(good).first(length)));
  for (const auto& plan : {relay::MessagePlan{relay::Algorithm{99}, 4096}, relay::MessagePlan{}})
    BOOST_TEST(refused(bytes_of(Announcement{1, 2, plan})));
  for (std::size_t i = 0; i < kRecordHeadBytes; ++i) {
    auto bad = good;
    bad[i] ^= std::byte{0x40};
    BOOST_TEST(refused(bad));
  }
}

BOOST_AUTO_TEST_CASE(random_bytes_are_refused_or_mean_what_would_be_written) {
  BOOST_TEST(rc::check([](std::vector<std::uint8_t> noise) {
    if (noise.size() > 8) noise[1] = noise[2] = noise[3] = noise[4] = noise[5] = noise[6] = 0;
    RecordReader reader(std::as_bytes(std::span(noise)));
    if (reader.done()) return;
    const auto record = reader.next();
    if (record) RC_ASSERT(encoded_bytes(*record) <= noise.size());
  }));
}

BOOST_AUTO_TEST_SUITE_END()

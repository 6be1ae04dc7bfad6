#include "lib/replica/records.hpp"

#include <rapidcheck.h>
#include <boost/test/unit_test.hpp>
#include <vector>

BOOST_AUTO_TEST_SUITE(records_test)

using namespace rdmc;
using namespace rdmc::replica;

namespace {

Envelope any_envelope() {
  return {.context = ContextId{*rc::gen::arbitrary<std::uint32_t>()},
          .source = *rc::gen::arbitrary<std::uint32_t>(),
          .tag = *rc::gen::inRange(0, 1 << 30),
          .sequence = *rc::gen::arbitrary<std::uint32_t>()};
}

Sight any_sight() {
  return {.channel = {.context = ContextId{*rc::gen::arbitrary<std::uint32_t>()},
                      .rank = Rank{*rc::gen::arbitrary<std::uint32_t>()},
                      .tag = *rc::gen::inRange(0, 1 << 30)},
          .sequence = *rc::gen::arbitrary<std::uint32_t>()};
}

/// `bytes` is the memory of the message of an Eager record.
Record any_record(std::vector<std::byte>& bytes) {
  switch (*rc::gen::inRange(0, 11)) {
    case 0:
      bytes.resize(*rc::gen::inRange<std::size_t>(0, 100), std::byte{7});
      return Eager{any_envelope(), bytes};
    case 1:
      return Announcement{.envelope = any_envelope(),
                          .transfer = *rc::gen::arbitrary<std::uint32_t>(),
                          .bytes = *rc::gen::arbitrary<std::uint64_t>() >> 1};
    case 2:
      return Grant{.transfer = *rc::gen::arbitrary<std::uint32_t>(),
                   .arrival = *rc::gen::arbitrary<std::uint32_t>(),
                   .bytes = *rc::gen::arbitrary<std::uint64_t>(),
                   .remote_address = *rc::gen::arbitrary<std::uint64_t>(),
                   .remote_key = RemoteKey{*rc::gen::arbitrary<std::uint32_t>()}};
    case 3:
      return Acknowledgement{.context = ContextId{*rc::gen::arbitrary<std::uint32_t>()},
                             .tag = *rc::gen::inRange(0, 1 << 30),
                             .sequence = *rc::gen::arbitrary<std::uint32_t>()};
    case 4: return Question{any_sight()};
    case 5: return Sighting{any_sight()};
    case 10:
      return Chase{.sight = any_sight(),
                   .origin = *rc::gen::arbitrary<std::uint32_t>(),
                   .number = *rc::gen::arbitrary<std::uint64_t>()};
    case 6:
      return Fence{.number = *rc::gen::arbitrary<std::uint64_t>(), .is_answer = *rc::gen::arbitrary<bool>()};
    case 7: {
      const auto count = *rc::gen::inRange<std::size_t>(0, 5);
      bytes.resize(count * kSentMessagesBytes);
      for (std::size_t i = 0; i < count; ++i)
        put_sent(bytes.data() + i * kSentMessagesBytes, {.count = *rc::gen::inRange(1u, kMostSentMessages),
                                                         .bytes = *rc::gen::arbitrary<std::uint64_t>() >> 1,
                                                         .digest = *rc::gen::arbitrary<std::uint64_t>()});
      const Sight first = any_sight();
      return SendReport{.channel = first.channel, .first = first.sequence, .sent = bytes};
    }
    case 8: return SendsEnded{};
    default: return Consumed{*rc::gen::arbitrary<std::uint64_t>()};
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_written_is_read_again_in_the_same_order) {
  BOOST_TEST(rc::check([] {
    std::vector<Record> records;
    std::vector<std::vector<std::byte>> memory(*rc::gen::inRange<std::size_t>(1, 10));
    std::vector<std::byte> frame;
    for (auto& bytes : memory) {
      records.push_back(any_record(bytes));
      const auto used = frame.size();
      frame.resize(used + encoded_bytes(records.back()));
      RC_ASSERT(encode(records.back(), std::span(frame).subspan(used)) == frame.size() - used);
    }
    RecordReader reader(frame);
    for (const auto& record : records) {
      RC_ASSERT(!reader.done());
      const auto read = reader.next();
      RC_ASSERT(read.has_value());
      RC_ASSERT((*read == record));
    }
    RC_ASSERT(reader.done());
  }));
}

BOOST_AUTO_TEST_CASE(a_record_that_is_cut_off_is_refused) {
  BOOST_TEST(rc::check([] {
    std::vector<std::byte> bytes;
    const auto record = any_record(bytes);
    std::vector<std::byte> frame(encoded_bytes(record));
    encode(record, frame);
    const auto kept = *rc::gen::inRange<std::size_t>(1, frame.size());
    RecordReader reader(std::span<const std::byte>(frame).first(kept));
    const auto read = reader.next();
    RC_ASSERT(!read.has_value());
    RC_ASSERT(read.error().code == Errc::protocol_error);
  }));
}

BOOST_AUTO_TEST_CASE(any_bytes_are_read_or_refused_without_reading_beyond_them) {
  BOOST_TEST(rc::check([](const std::vector<std::uint8_t>& noise) {
    const std::vector<std::uint8_t> exact(noise);  // So that the address sanitizer sees the end.
    RecordReader reader(std::as_bytes(std::span(exact)));
    while (!reader.done()) {
      const auto read = reader.next();
      if (!read) break;
    }
  }));
}

BOOST_AUTO_TEST_SUITE_END()

#include "lib/socket/records.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>
#include <vector>

BOOST_AUTO_TEST_SUITE(records_test)

using namespace rdmc;
using namespace rdmc::sockets;

namespace {

Address any_address() {
  Address address{.ipv6 = *rc::gen::arbitrary<bool>()};
  const auto bytes =
      *rc::gen::container<std::vector<std::uint8_t>>(address.ip().size(), rc::gen::arbitrary<std::uint8_t>());
  std::ranges::copy(bytes, address.bytes.begin());
  address.port = *rc::gen::arbitrary<std::uint16_t>();
  return address;
}

/// Returns a record with exactly the fields that its kind has.
Record any_record(std::vector<std::byte>& data) {
  Record record{.kind = RecordKind{*rc::gen::inRange<std::uint8_t>(1, 15)},
                .connection = ConnectionId{*rc::gen::arbitrary<std::uint64_t>()}};
  const bool has_limit = is_open(record.kind) || record.kind == RecordKind::accepted ||
                         record.kind == RecordKind::credit || record.kind == RecordKind::lane;
  if (has_limit) record.limit = *rc::gen::arbitrary<std::uint64_t>();
  if (is_open(record.kind)) record.from = any_address(), record.to = any_address();
  if (record.kind == RecordKind::grant)
    record.grant = {*rc::gen::arbitrary<std::uint32_t>(), *rc::gen::arbitrary<std::uint32_t>(),
                    *rc::gen::arbitrary<std::uint64_t>()};
  if (record.kind == RecordKind::data) {
    data.assign(*rc::gen::inRange<std::size_t>(0, 300), std::byte{*rc::gen::arbitrary<std::uint8_t>()});
    record.bytes = data;
  }
  return record;
}

}  // namespace

BOOST_AUTO_TEST_CASE(records_are_read_back_as_they_were_written_one_behind_the_other) {
  BOOST_TEST(rc::check([] {
    const auto count = *rc::gen::inRange(1, 8);
    std::vector<std::vector<std::byte>> data(count);
    std::vector<Record> records;
    std::vector<std::byte> frame;
    for (auto& each : data) {
      records.push_back(any_record(each));
      std::vector<std::byte> encoded(encoded_bytes(records.back()));
      RC_ASSERT(encode(records.back(), encoded) == encoded.size());
      RC_ASSERT(records.back().kind == RecordKind::data || encoded.size() <= kMostControlBytes);
      frame.insert(frame.end(), encoded.begin(), encoded.end());
    }
    std::span<const std::byte> rest(frame);
    for (const Record& written : records) {
      const auto read = take_record(rest);
      RC_ASSERT(read.has_value());
      RC_ASSERT(*read == written);
    }
    RC_ASSERT(rest.empty());
  }));
}

BOOST_AUTO_TEST_CASE(a_record_with_one_byte_changed_or_cut_off_is_refused_or_is_another_whole_record) {
  BOOST_TEST(rc::check([] {
    std::vector<std::byte> data;
    const Record record = any_record(data);
    std::vector<std::byte> encoded(encoded_bytes(record));
    encode(record, encoded);
    const auto cut = *rc::gen::inRange<std::size_t>(1, encoded.size());
    std::span<const std::byte> rest(encoded);
    rest = rest.first(cut);
    RC_ASSERT(!take_record(rest).has_value());
    RC_ASSERT(rest.size() == cut);

    auto& changed = encoded[*rc::gen::inRange<std::size_t>(0, encoded.size())];
    changed ^= std::byte{*rc::gen::inRange<std::uint8_t>(1, 255)};
    rest = encoded;
    const auto read = take_record(rest);
    if (!read) return RC_ASSERT(read.error().code == Errc::protocol_error);
    RC_ASSERT(!(*read == record));
    RC_ASSERT(encoded_bytes(*read) + rest.size() == encoded.size());
  }));
}

BOOST_AUTO_TEST_SUITE_END()

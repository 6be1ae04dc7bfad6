#define BOOST_TEST_MODULE control_frame
#include "lib/group/control_frame.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>

using namespace rdmc;
using namespace rdmc::group;

namespace {

std::vector<std::byte> bytes_of(const ControlFrame& frame) {
  std::array<std::byte, kControlFrameBytes> buffer;
  const std::size_t length = encode(frame, buffer);
  return {buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(length)};
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_announcement_is_24_bytes_with_big_endian_fields_in_the_documented_order) {
  const auto bytes = bytes_of(Announcement{.message = 0x0102, .bytes = 0x030405});
  const std::vector<int> expected{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 3, 4, 5};
  BOOST_REQUIRE(bytes.size() == expected.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) BOOST_TEST(std::to_integer<int>(bytes[i]) == expected[i]);
}

BOOST_AUTO_TEST_CASE(every_frame_survives_its_own_encoding) {
  rc::check([](std::uint64_t message, std::uint64_t length) {
    const auto back = decode_control_frame(bytes_of(Announcement{message, length}));
    RC_ASSERT(back.has_value());
    RC_ASSERT((std::get<Announcement>(*back) == Announcement{message, length}));
  });
  rc::check([](std::uint64_t message, std::uint64_t address, std::uint32_t key, std::uint8_t slot) {
    const GrantFrame frame{message,
                           {.limit = *rc::gen::positive<std::uint64_t>(),
                            .remote_address = address,
                            .slots = *rc::gen::positive<std::uint64_t>(),
                            .key = RemoteKey{key},
                            .slot_id = slot}};
    const auto back = decode_control_frame(bytes_of(frame));
    RC_ASSERT(back.has_value());
    RC_ASSERT(std::get<GrantFrame>(*back) == frame);
  });
}

BOOST_AUTO_TEST_CASE(frames_of_a_wrong_length_kind_or_padding_are_refused) {
  const auto good = bytes_of(Announcement{1, 2});
  for (std::size_t length = 0; length < good.size(); ++length) {
    BOOST_TEST(!decode_control_frame(std::span(good).first(length)));
  }
  for (std::size_t i = 0; i < 8; ++i) {
    auto bad = good;
    bad[i] ^= std::byte{0x40};
    BOOST_TEST(!decode_control_frame(bad));
  }
  auto longer = good;
  longer.push_back(std::byte{0});
  BOOST_TEST(!decode_control_frame(longer));
}

BOOST_AUTO_TEST_CASE(random_bytes_never_crash_the_decoder) {
  rc::check([](const std::vector<std::uint8_t>& noise) {
    const auto frame = decode_control_frame(std::as_bytes(std::span(noise)));
    if (frame) RC_ASSERT(bytes_of(*frame).size() == noise.size());
  });
}

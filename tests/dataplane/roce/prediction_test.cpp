// Where the next packets will land: right when nothing is lost, and never where valid bytes lie.
#include <boost/test/unit_test.hpp>

#include "dataplane/roce/constants.hpp"
#include "tests/dataplane/roce/script.hpp"

namespace rdmc::roce::testing {
BOOST_AUTO_TEST_SUITE(prediction_test)
namespace {

/// "offset:bytes" of each predicted packet.
Lines predicted(Script& s, std::size_t most = 8, std::size_t skip = 0) {
  std::array<std::span<std::byte>, 64> out;
  const std::size_t count = s.connection().predict(std::span(out).first(most), skip);
  Lines lines;
  for (const auto& part : std::span(out).first(count))
    lines.push_back(fmt::format("{}:{}", part.data() - s.memory().data(), part.size()));
  return lines;
}
In part(int psn, std::uint64_t at, std::uint32_t rest) {
  return {Opcode::x_write, psn, kMtu, false, at, rest};
}
const ConnectionConfig kSelective{.selective_repeat = true};

}  // namespace

BOOST_AUTO_TEST_CASE(the_message_under_way_goes_on_behind_the_highest_psn) {
  Script s(kSelective);
  CHECK_LINES(predicted(s));
  s.in(part(0, 1000, 4 * kMtu + 10));
  CHECK_LINES(predicted(s), "1256:256", "1512:256", "1768:256", "2024:10");
  CHECK_LINES(predicted(s, 2, 1), "1512:256", "1768:256");
  s.in(part(2, 1512, 2 * kMtu + 10));
  CHECK_LINES(predicted(s), "1768:256", "2024:10");
  s.in(part(1, 1256, 3 * kMtu + 10));  // fills a gap: nothing new ahead
  CHECK_LINES(predicted(s), "1768:256", "2024:10");
}

BOOST_AUTO_TEST_CASE(expected_writes_follow_and_go_when_their_first_packet_comes) {
  Script s(kSelective);
  s.connection().expect_write(s.memory().subspan(0, 2 * kMtu));
  s.connection().expect_write(s.memory().subspan(4096, kMtu));
  s.connection().expect_write(s.memory().subspan(8192, kMtu + 1));
  s.connection().expect_write(s.memory().subspan(9999, kMtu));
  // No train continues behind a short packet, so the answer ends there.
  CHECK_LINES(predicted(s), "0:256", "256:256", "4096:256", "8192:256", "8448:1");
  CHECK_LINES(predicted(s, 8, 5), "9999:256");
  CHECK_LINES(predicted(s, 8, 6));
  s.in(part(0, 0, 2 * kMtu));
  CHECK_LINES(predicted(s, 2), "256:256", "4096:256");
  // The second message is lost as a whole; what comes is the third.
  s.in(part(3, 8192, kMtu + 1));
  CHECK_LINES(predicted(s), "8448:1");
  CHECK_LINES(predicted(s, 8, 1), "9999:256");
}

BOOST_AUTO_TEST_CASE(a_write_of_no_bytes_uses_up_its_hint) {
  Script s(kSelective);
  s.connection().expect_write(s.memory().subspan(512, 2 * kMtu));  // an arena: granted for an unknown length
  s.in({Opcode::x_write_last, 0, 0, false, 512, 0});
  CHECK_LINES(predicted(s));
}

BOOST_AUTO_TEST_CASE(memory_with_valid_bytes_is_never_predicted) {
  Script s(kSelective);
  s.in(part(0, 512, 3 * kMtu));
  s.connection().expect_write(s.memory().subspan(512, 3 * kMtu));  // too late, it is under way
  CHECK_LINES(predicted(s), "768:256", "1024:256");
  // A hint whose message comes behind a gap, lower than the highest PSN.
  s.connection().expect_write(s.memory().subspan(4096, kMtu));
  s.in({Opcode::x_write_last, 9, kMtu, false, 16384});
  CHECK_LINES(predicted(s), "4096:256");
  s.in({Opcode::x_write_last, 3, kMtu, false, 4096});
  CHECK_LINES(predicted(s));
}

BOOST_AUTO_TEST_CASE(hints_that_nothing_came_for_are_gone_when_their_memory_is_written_after_all) {
  Script s(kSelective);
  const auto first = s.memory().first(kMtu), second = s.memory().subspan(4096, kMtu);
  for (const auto& where : {first, second})
    s.connection().expect_write(where);  // of a grant that ended unused
  for (const auto& where : {second, first}) s.connection().expect_write(where);
  s.in({Opcode::x_write_last, 0, kMtu, false, 4096});
  CHECK_LINES(predicted(s), "0:256");
  s.in({Opcode::x_write_last, 1, kMtu, false, 0});
  CHECK_LINES(predicted(s));
}

BOOST_AUTO_TEST_CASE(revoked_memory_is_never_predicted_even_under_a_new_key) {
  Script s(kSelective);
  s.in(part(0, 512, 3 * kMtu));
  s.connection().expect_write(s.memory().subspan(4096, kMtu));
  s.regions().revoke(kKey);
  CHECK_LINES(predicted(s));
  BOOST_TEST(s.regions().add(RemoteKey{99}, kBase, s.memory()));
  CHECK_LINES(predicted(s));
  std::array<std::byte, 300> unregistered;
  s.connection().expect_write(unregistered);
  CHECK_LINES(predicted(s));
}

BOOST_AUTO_TEST_CASE(hints_of_revoked_memory_make_room_for_new_ones) {
  Script s(kSelective);
  for (std::size_t i = 0; i < kExpectedWrites; ++i) s.connection().expect_write(s.memory().first(kMtu));
  s.connection().expect_write(s.memory().subspan(4096, kMtu));
  CHECK_LINES(predicted(s, 1, kExpectedWrites));  // full of those that may still come true
  s.regions().revoke(kKey);
  BOOST_TEST(s.regions().add(RemoteKey{99}, kBase, s.memory()));
  s.connection().expect_write(s.memory().subspan(8192, kMtu));
  CHECK_LINES(predicted(s), "8192:256");
}

BOOST_AUTO_TEST_CASE(strangers_have_no_hints) {
  Script stranger;
  stranger.connection().expect_write(stranger.memory().first(kMtu));
  CHECK_LINES(predicted(stranger));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::roce::testing

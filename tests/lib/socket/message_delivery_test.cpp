#include "lib/socket/message_delivery.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <thread>

#include "dataplane/memory/arena.hpp"
#include "dataplane/memory/page_hand_off.hpp"

BOOST_AUTO_TEST_SUITE(message_delivery_test)

using namespace rdmc;
using namespace rdmc::sockets;

namespace {

constexpr std::size_t kBytes = 2 * memory::kHugePageBytes;
constexpr ByPages kPatient{.least_bytes = memory::kHugePageBytes, .patience = milliseconds(2)};

bool all(std::span<const std::byte> bytes, int value) {
  return std::ranges::all_of(bytes, [value](std::byte byte) { return byte == std::byte(value); });
}

struct Fixture {
  std::shared_ptr<memory::Arena> arrived = std::make_shared<memory::Arena>(*memory::Arena::make(kBytes));
  memory::Arena out = *memory::Arena::make(kBytes);
  Fixture() { std::ranges::fill(arrived->bytes(), std::byte(7)); }
  Endpoint::Message message() { return {.owner = arrived, .bytes = arrived->bytes()}; }
  /// The message when no other part of the process has it.
  Endpoint::Message last_message() {
    const auto bytes = arrived->bytes();
    return {.owner = std::move(arrived), .bytes = bytes};
  }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(without_permission_a_message_is_copied, Fixture) {
  BOOST_TEST(deliver(last_message(), out.bytes()) == kBytes);
  BOOST_TEST(all(out.bytes(), 7));
}

BOOST_FIXTURE_TEST_CASE(the_only_owner_gets_the_pages, Fixture) {
  BOOST_TEST(deliver(last_message(), out.bytes(), kPatient) == 0u);
  BOOST_TEST(all(out.bytes(), 7));
}

BOOST_FIXTURE_TEST_CASE(a_message_that_somebody_else_reads_is_copied_and_stays_as_it_is, Fixture) {
  BOOST_TEST(deliver(message(), out.bytes(), kPatient) == kBytes);
  BOOST_TEST(all(out.bytes(), 7));
  BOOST_TEST(all(arrived->bytes(), 7));
}

// The other owner may release the message before or after the wait has ended. Both must give the right bytes.
BOOST_FIXTURE_TEST_CASE(an_owner_that_reads_the_message_meanwhile_reads_the_right_bytes, Fixture) {
  for (int i = 0; i < 50; ++i) {
    arrived = std::make_shared<memory::Arena>(*memory::Arena::make(kBytes));
    std::ranges::fill(arrived->bytes(), std::byte(9));
    std::ranges::fill(out.bytes(), std::byte(0));
    auto mine = message();
    bool is_right = false;
    std::thread reader([&is_right, other = std::move(arrived)] { is_right = all(other->bytes(), 9); });
    const std::size_t copied = deliver(std::move(mine), out.bytes(), kPatient);
    reader.join();
    BOOST_TEST(is_right);
    BOOST_TEST((copied == 0 || copied == kBytes));
    BOOST_TEST(all(out.bytes(), 9));
  }
}

BOOST_FIXTURE_TEST_CASE(a_short_buffer_gets_the_first_bytes_and_no_byte_after_them_changes, Fixture) {
  const std::size_t part = memory::kHugePageBytes + 100;
  BOOST_TEST(deliver(last_message(), out.bytes().first(part), kPatient) == 100u);
  BOOST_TEST(all(out.bytes().first(part), 7));
  BOOST_TEST(all(out.bytes().subspan(part), 0));
}

BOOST_FIXTURE_TEST_CASE(an_empty_message_is_delivered, Fixture) {
  BOOST_TEST(deliver({}, out.bytes(), kPatient) == 0u);
  BOOST_TEST(deliver(message(), {}, kPatient) == 0u);
}

BOOST_AUTO_TEST_SUITE_END()

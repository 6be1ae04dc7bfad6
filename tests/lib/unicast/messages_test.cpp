#include "lib/unicast/messages.hpp"

#include <rapidcheck.h>
#include <boost/test/unit_test.hpp>

#include "tests/lib/unicast/endpoints.hpp"

BOOST_AUTO_TEST_SUITE(messages_test)

using namespace rdmc;
using namespace rdmc::unicast;
using rdmc::testing::bytes_of;
using rdmc::testing::failed_with;

BOOST_AUTO_TEST_CASE(what_is_written_means_the_same_when_it_is_read) {
  BOOST_TEST(rc::check("greetings", [](const std::string& name, const std::string& data) {
    const Greeting greeting{name.substr(0, kMostNameBytes), bytes_of(data.substr(0, kMostPrivateBytes))};
    RC_ASSERT((decode_greeting(encode(greeting)) == greeting));
  }));
  BOOST_TEST(rc::check("memory", [](std::uint64_t address, std::uint64_t length, std::uint32_t key) {
    const RemoteMemory memory{address, length, RemoteKey{key}};
    RC_ASSERT((*RemoteMemory::decode(memory.encode()) == memory));
  }));
  BOOST_TEST(rc::check("the end", [](const std::string& text) {
    const Error cause{Errc(*rc::gen::inRange(0, static_cast<int>(Errc::resource_limit) + 1)), text};
    const auto read = decode_message(unicast::encode(Message(Ended{cause})));
    RC_ASSERT((read && std::holds_alternative<Ended>(*read)));
    RC_ASSERT(std::get<Ended>(*read).cause.code == cause.code);
    RC_ASSERT(std::get<Ended>(*read).cause.what == text.substr(0, kMostTextBytes));
  }));
  BOOST_TEST(std::holds_alternative<Ready>(*decode_message(unicast::encode(Message(Ready{})))));
}

BOOST_AUTO_TEST_CASE(what_is_malformed_too_long_or_of_another_version_is_refused_by_name) {
  BOOST_TEST(failed_with(decode_greeting(bytes_of("\xFF\xFF")), Errc::protocol_error));
  BOOST_TEST(failed_with(decode_greeting({}), Errc::version_mismatch));
  BOOST_TEST(failed_with(decode_greeting(bytes_of("\x08\x02")), Errc::version_mismatch));
  BOOST_TEST(failed_with(decode_greeting(encode(Greeting{std::string(kMostNameBytes + 1, 'x'), {}})),
                         Errc::protocol_error));
  BOOST_TEST(failed_with(decode_greeting(encode(Greeting{"x", Bytes(kMostPrivateBytes + 1)})),
                         Errc::protocol_error));
  BOOST_TEST(failed_with(decode_message({}), Errc::protocol_error));
  BOOST_TEST(failed_with(decode_message(bytes_of("\xFF\xFF")), Errc::protocol_error));
  const auto memory = RemoteMemory{}.encode();
  BOOST_TEST(failed_with(RemoteMemory::decode(std::span(memory).first(19)), Errc::protocol_error));
}

BOOST_AUTO_TEST_SUITE_END()

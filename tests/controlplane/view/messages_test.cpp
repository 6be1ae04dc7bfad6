#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>

#include "controlplane/view/messages.hpp"

namespace rdmc::view {
BOOST_AUTO_TEST_SUITE(messages_test)
namespace {

Member any_member(std::uint8_t host) {
  Member member{.id = MemberId{*rc::gen::arbitrary<std::uint32_t>() * 256u + host}};
  member.name = "host " + std::to_string(host);
  member.address = Address::ipv4(10, 0, 0, host, *rc::gen::arbitrary<std::uint16_t>());
  if (*rc::gen::arbitrary<bool>()) {
    member.address.ipv6 = true;
    for (auto& byte : member.address.bytes) byte = *rc::gen::arbitrary<std::uint8_t>();
    member.address.bytes[15] = host;
  }
  member.fabrics.assign(*rc::gen::inRange<std::size_t>(0, 4), "udp");
  member.host = *rc::gen::arbitrary<std::uint64_t>();
  member.since = Epoch{*rc::gen::arbitrary<std::uint64_t>()};
  if (*rc::gen::arbitrary<bool>())
    member.lease = nanoseconds(*rc::gen::inRange<std::int64_t>(kMinLease.ns, kMaxLease.ns + 1));
  if (*rc::gen::arbitrary<bool>())
    member.process = {.host = *rc::gen::arbitrary<std::uint64_t>(),
                      .pid_namespace = *rc::gen::arbitrary<std::uint64_t>(),
                      .pid = *rc::gen::inRange<std::uint32_t>(1, 1U << 22),
                      .started = *rc::gen::arbitrary<std::uint64_t>(),
                      .time_namespace = *rc::gen::arbitrary<std::uint64_t>()};
  return member;
}

View any_view() {
  View view{.epoch = Epoch{*rc::gen::arbitrary<std::uint64_t>()}};
  const int members = *rc::gen::inRange(0, 6);
  for (int i = 0; i < members; ++i) view.members.push_back(any_member(static_cast<std::uint8_t>(i)));
  for (int held = *rc::gen::inRange(0, 4); held > 0; --held)
    view.held.push_back({MemberId{*rc::gen::arbitrary<std::uint64_t>()},
                         nanoseconds(*rc::gen::inRange<std::int64_t>(0, kMaxHeld.ns + 1))});
  return view;
}

Status any_status() {
  Status status{.sequence = *rc::gen::arbitrary<std::uint64_t>(),
                .epoch = Epoch{*rc::gen::arbitrary<std::uint64_t>()}};
  status.from = MemberId{*rc::gen::arbitrary<std::uint64_t>()};
  for (const auto id : *rc::gen::arbitrary<std::vector<std::uint64_t>>()) status.hears.insert(MemberId{id});
  for (const auto id : *rc::gen::arbitrary<std::vector<std::uint64_t>>()) status.gone.insert(MemberId{id});
  status.asks = *rc::gen::arbitrary<bool>();
  for (const auto id : *rc::gen::arbitrary<std::vector<std::uint64_t>>())
    status.granted.push_back({MemberId{id}, *rc::gen::arbitrary<std::uint64_t>()});
  for (const auto id : *rc::gen::arbitrary<std::vector<std::uint64_t>>()) status.exited.insert(MemberId{id});
  if (*rc::gen::arbitrary<bool>()) {
    status.joining = any_member(7);
    status.joining->id = status.from;
  }
  return status;
}

BOOST_AUTO_TEST_CASE(what_is_said_is_what_is_heard) {
  BOOST_TEST(rc::check([] {
    const Message said = *rc::gen::arbitrary<bool>() ? Message(any_view()) : Message(any_status());
    const auto heard = decode(encode(said));
    RC_ASSERT(heard.has_value());
    RC_ASSERT(*heard == said);
  }));
}

BOOST_AUTO_TEST_CASE(a_view_is_kept_as_it_is) {
  BOOST_TEST(rc::check([] {
    const View view = any_view();
    RC_ASSERT(decode_view(encode_view(view)).value() == view);
  }));
}

BOOST_AUTO_TEST_CASE(damaged_bytes_are_an_error_or_a_message_within_bounds) {
  BOOST_TEST(rc::check([] {
    Bytes bytes = encode(*rc::gen::arbitrary<bool>() ? Message(any_view()) : Message(any_status()));
    for (int i = *rc::gen::inRange(1, 8); i > 0 && !bytes.empty(); --i)
      bytes[*rc::gen::inRange<std::size_t>(0, bytes.size())] = std::byte{*rc::gen::arbitrary<std::uint8_t>()};
    bytes.resize(*rc::gen::inRange<std::size_t>(0, bytes.size() + 1));
    const auto heard = decode(bytes);
    if (!heard) {
      RC_ASSERT(heard.error().code == Errc::protocol_error);
    } else if (const View* const view = std::get_if<View>(&*heard)) {
      MemberSet ids;
      for (const Member& member : view->members) RC_ASSERT(ids.insert(member.id).second);
    }
  }));
}

BOOST_AUTO_TEST_CASE(a_view_with_a_member_or_an_address_twice_or_with_too_many_is_refused) {
  View twice{.epoch = Epoch{3}, .members = {{.id = MemberId{1}, .address = Address::ipv4(10, 0, 0, 1, 1)}}};
  twice.members.push_back({.id = MemberId{1}, .address = Address::ipv4(10, 0, 0, 2, 1)});
  BOOST_TEST(!decode_view(encode_view(twice)));
  twice.members[1] = {.id = MemberId{2}, .address = Address::ipv4(10, 0, 0, 1, 1)};
  BOOST_TEST(!decode_view(encode_view(twice)));
  View many{.epoch = Epoch{3}};
  for (std::uint32_t i = 0; i <= kMaxMembers; ++i)
    many.members.push_back(
        {.id = MemberId{i}, .address = Address::ipv4(10, 0, 0, 1, static_cast<std::uint16_t>(i + 1))});
  BOOST_TEST(!decode_view(encode_view(many)));
  many.members.pop_back();
  BOOST_TEST(decode_view(encode_view(many)).has_value());
}

BOOST_AUTO_TEST_CASE(leases_that_are_too_long_or_too_many_are_refused) {
  View view{.epoch = Epoch{1}, .members = {{.id = MemberId{1}, .lease = kMaxLease + nanoseconds(1)}}};
  BOOST_TEST(!decode_view(encode_view(view)));
  // With a shorter lease, the members would do nothing but renew it.
  view.members[0].lease = kMinLease - nanoseconds(1);
  BOOST_TEST(!decode_view(encode_view(view)).has_value());
  view.members[0].lease = nanoseconds(-1);
  BOOST_TEST(!decode_view(encode_view(view)));
  view.members[0].lease = kMaxLease;
  view.held = {{MemberId{2}, kMaxHeld + nanoseconds(1)}};
  BOOST_TEST(!decode_view(encode_view(view)));
  view.held.assign(2 * kMaxMembers + 1, {MemberId{2}, kMaxHeld});
  BOOST_TEST(!decode_view(encode_view(view)));
  view.held.pop_back();
  BOOST_TEST(decode_view(encode_view(view)).has_value());
  Status status{.from = MemberId{1}};
  status.granted.resize(2 * kMaxMembers + 1);
  BOOST_TEST(!decode(encode(status)));
}

BOOST_AUTO_TEST_CASE(names_that_could_write_to_a_terminal_and_foreign_identities_are_refused) {
  View view{.epoch = Epoch{1}, .members = {{.id = MemberId{1}, .name = "a\x1b[2J"}}};
  BOOST_TEST(!decode_view(encode_view(view)));
  Status status{.from = MemberId{1}, .joining = Member{.id = MemberId{2}}};
  BOOST_TEST(!decode(encode(status)));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::view

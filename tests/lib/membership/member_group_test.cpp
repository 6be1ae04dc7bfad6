// Tests groups of a membership, which the library continues without help from the application.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>

#include "controlplane/membership/membership.hpp"
#include "controlplane/peer/context.hpp"
#include "controlplane/store/embedded_store.hpp"
#include "lib/identity_of.hpp"
#include "lib/membership/messages.hpp"
#include "tests/lib/membership/members.hpp"

BOOST_AUTO_TEST_SUITE(member_group_test)

using namespace rdmc;
using namespace rdmc::testing;

namespace {

std::vector<std::byte> message(std::uint64_t number) {
  std::vector<std::byte> bytes(number % 2 == 0 ? 30'000 : 100);
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

/// The members of a view, in the order of the view. Each has a part in the group.
struct Members {
  explicit Members(std::size_t count, MemberGroupOptions options = {}) : options_(std::move(options)) {
    options_.first_members = count;
    options_.group.block_bytes = 4096;
    for (std::size_t i = 0; i < count; ++i) {
      add();
      for (const auto& process : processes) BOOST_TEST_REQUIRE(process->sees(i + 1));
    }
    for (const auto& process : processes) process->make_part(options_);
  }
  Process& add() { return *processes.emplace_back(std::make_unique<Process>(store, "a member")); }
  Process& operator[](std::size_t i) { return *processes[i]; }
  Part& part(std::size_t i) { return *processes[i]->part; }
  const MemberGroupOptions& options() const { return options_; }
  bool are_in(std::size_t count, MemberId root) {
    bool all = true;
    for (const auto& process : processes) all = all && process->part->is_in(count, root);
    return all;
  }

  OneStore store;
  std::vector<std::unique_ptr<Process>> processes;

 private:
  MemberGroupOptions options_;
};

/// Checks that the messages which both parts have are equal, and that neither part has gaps.
void expect_alike(Part& one, Part& other) {
  BOOST_TEST((one.is_without_gaps() && other.is_without_gaps()));
  one.told.tell([&] {
    other.told.tell([&] {
      for (const auto& [number, bytes] : one.delivered) {
        const auto found = other.delivered.find(number);
        if (found != other.delivered.end()) BOOST_TEST((found->second == bytes), "message " << number);
      }
    });
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_group_begins_with_its_first_members_and_closes_when_all_wish_it) {
  Members members(3);
  BOOST_TEST(members.are_in(3, members[0].id()));
  BOOST_TEST(failed_with(members.part(1).group->send({}), Errc::invalid_argument));
  for (std::uint64_t i = 0; i < 20; ++i) BOOST_TEST(members.part(0).send(message(i)) == i);
  for (std::size_t i = 0; i < 3; ++i) {
    Part& part = members.part(i);
    BOOST_TEST(part.group
                   ->close([&part](Result<void> result) {
                     part.told.tell([&] { part.closed = std::move(result); });
                   })
                   .has_value());
    BOOST_TEST(failed_with(part.group->close({}), Errc::cancelled));
  }
  for (std::size_t i = 0; i < 3; ++i) {
    Part& part = members.part(i);
    BOOST_TEST(part.told.wait([&] { return part.closed.has_value(); }));
    BOOST_TEST(part.closed->has_value());
    BOOST_TEST(!part.ended.has_value());
    if (i == 0) continue;
    BOOST_TEST(part.delivered.size() == 20U);
    BOOST_TEST((part.delivered.at(19) == message(19)));
  }
  BOOST_TEST(failed_with(members.part(0).group->send({}), Errc::cancelled));
}

BOOST_AUTO_TEST_CASE(a_group_that_has_not_begun_tells_who_is_there) {
  OneStore store;
  Process one(store, "one");
  BOOST_TEST_REQUIRE(one.sees(1));
  Process two(store, "two");
  BOOST_TEST_REQUIRE((one.sees(2) && two.sees(2)));
  MemberGroupOptions options;
  options.first_members = 2;
  one.make_part(options);
  BOOST_TEST(one.part->group->connected().empty());
  two.make_part(options);
  BOOST_TEST(one.part->is_in(2, one.id()));
  BOOST_TEST((one.part->group->connected() == std::vector{two.id()}));
  BOOST_TEST((two.part->group->connected() == std::vector{one.id()}));
  two.part.reset();
  BOOST_TEST(one.part->is_in(1, one.id()));
  BOOST_TEST(one.part->group->connected().empty());
}

BOOST_AUTO_TEST_CASE(the_root_gets_the_notes_of_every_member_in_their_order) {
  Members members(4);
  BOOST_TEST(members.are_in(4, members[0].id()));
  const auto note = [](std::size_t i) { return std::vector(i * 37 % 5000, static_cast<std::byte>(i)); };
  constexpr std::size_t kNotes = 300;
  for (std::size_t i = 0; i < kNotes; ++i)
    for (const auto& process : members.processes)
      BOOST_TEST_REQUIRE(process->part->group->tell_root(note(i)).has_value());
  Part& root = members.part(0);
  for (const auto& process : members.processes) {
    const MemberId from = process->id();
    BOOST_TEST_REQUIRE(root.told.wait([&] { return root.notes[from].size() == kNotes; }));
    root.told.tell([&] {
      for (std::size_t i = 0; i < kNotes; ++i) BOOST_TEST((root.notes[from][i] == note(i)));
    });
  }
  const std::vector<std::byte> longest(kMostNote), too_long(kMostNote + 1);
  BOOST_TEST(members.part(3).group->tell_root(longest).has_value());
  BOOST_TEST(root.told.wait([&] { return root.notes[members[3].id()].size() == kNotes + 1; }));
  BOOST_TEST(failed_with(members.part(3).group->tell_root(too_long), Errc::invalid_argument));

  members[0].part.reset();
  BOOST_TEST(members.part(1).is_in(3, members[1].id()));
  BOOST_TEST(members.part(3).is_in(3, members[1].id()));
  BOOST_TEST(members.part(3).group->tell_root(note(7)).has_value());
  BOOST_TEST(members.part(1).told.wait([&] {
    return members.part(1).notes[members[3].id()] == std::vector<std::vector<std::byte>>{note(7)};
  }));
}

BOOST_AUTO_TEST_CASE(who_joins_gets_the_messages_from_then_on) {
  Members members(2);
  BOOST_TEST(members.are_in(2, members[0].id()));
  for (std::uint64_t i = 0; i < 10; ++i) members.part(0).send(message(i));
  members.add().make_part(members.options());
  BOOST_TEST(members.are_in(3, members[0].id()));
  for (std::uint64_t i = 10; i < 20; ++i) BOOST_TEST(members.part(0).send(message(i)) == i);
  for (const std::size_t i : {1, 2}) BOOST_TEST(members.part(i).has(20));
  BOOST_TEST(members.part(2).first <= 10U);
  BOOST_TEST(members.part(1).first == 0U);
  expect_alike(members.part(1), members.part(2));
}

BOOST_AUTO_TEST_CASE(the_root_changes_and_what_was_sent_before_arrives_first) {
  Members members(3);
  BOOST_TEST(members.are_in(3, members[0].id()));
  for (std::uint64_t i = 0; i < 30; ++i) members.part(0).send(message(i));
  BOOST_TEST(members.part(2).group->change_root(members[1].id()).has_value());
  BOOST_TEST(members.are_in(3, members[1].id()));
  BOOST_TEST(members.part(1).now.next == 30U);
  BOOST_TEST(members.part(2).has(30));
  for (std::uint64_t i = 30; i < 40; ++i) BOOST_TEST(members.part(1).send(message(i)) == i);
  for (const std::size_t i : {0, 2}) BOOST_TEST(members.part(i).has(40));
  BOOST_TEST(members.part(2).delivered.size() == 40U);
  expect_alike(members.part(0), members.part(2));
  BOOST_TEST(failed_with(members.part(0).group->send({}), Errc::invalid_argument));
  BOOST_TEST(members.part(0).group->change_root(members[0].id()).has_value());
  BOOST_TEST(members.are_in(3, members[0].id()));
  BOOST_TEST(members.part(0).send(message(40)) == 40U);
  for (const std::size_t i : {1, 2}) BOOST_TEST(members.part(i).has(41));
}

BOOST_AUTO_TEST_CASE(a_root_sends_what_it_has_queued_before_another_one_follows_it) {
  Members members(2);
  BOOST_TEST(members.are_in(2, members[0].id()));
  Part& receiver = members.part(1);
  receiver.has_room = false;
  for (std::uint64_t i = 0; i < 50; ++i) members.part(0).send(message(2 * i));
  BOOST_TEST_REQUIRE(receiver.told.wait([&] { return receiver.refused > 0; }));
  BOOST_TEST(receiver.group->change_root(members[1].id()).has_value());
  const auto bytes = message(101);
  Result<std::uint64_t> sent;
  // Sends until the root is drained, however late that is. All of these messages must arrive.
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    sent = members.part(0).group->send(bytes);
  } while (sent);
  BOOST_TEST(sent.error().what == "another member is to be the root");
  BOOST_TEST(members.part(0).is_in(2, members[0].id()));
  std::vector<std::vector<std::byte>> rooms;
  receiver.told.tell([&] {
    receiver.has_room = true;
    rooms.assign(receiver.refused, std::vector<std::byte>(30'000));
  });
  for (auto& room : rooms) BOOST_TEST(receiver.group->post_receive_buffer(room).has_value());
  BOOST_TEST(members.are_in(2, members[1].id()));
  BOOST_TEST(members.part(0).changes == 2U);
  BOOST_TEST(receiver.now.next == receiver.delivered.size());
  BOOST_TEST(receiver.delivered.size() >= 50U);
  BOOST_TEST(receiver.is_without_gaps());
}

BOOST_AUTO_TEST_CASE(a_group_begins_over_every_fabric_though_members_ask_for_connections_again) {
  for (const char* const fabric : {"shm", "auto", "shm", "auto", "shm", "auto"}) {
    const OneStore store;
    std::vector<std::unique_ptr<Process>> processes;
    for (const char* const name : {"a", "b", "c"}) {
      MembershipOptions options = options_for(store.address(), name);
      options.fabric = fabric;
      processes.push_back(std::make_unique<Process>(options));
      processes.back()->make_part();
      BOOST_TEST_REQUIRE(processes.front()->sees(processes.size()));
    }
    for (const auto& process : processes)
      BOOST_TEST(process->part->is_in(3, processes.front()->id()), fabric);
  }
}

BOOST_AUTO_TEST_CASE(a_member_with_other_options_stays_out_and_is_told_why) {
  Members members(2);
  BOOST_TEST(members.are_in(2, members[0].id()));
  Process& other = members.add();
  BOOST_TEST_REQUIRE(other.sees(3));
  for (const GroupOptions& group :
       {GroupOptions{.block_bytes = 8192}, GroupOptions{.block_bytes = 4096, .small_bytes = 100},
        GroupOptions{.block_bytes = 4096, .algorithm = relay::Algorithm::chain}}) {
    Part& part = other.make_part({.group = group});
    BOOST_TEST(part.told.wait([&] { return part.ended.has_value(); }));
    BOOST_TEST((part.ended->code == Errc::invalid_argument));
  }
  BOOST_TEST(members.part(0).changes == 1U);
  other.make_part(members.options());
  BOOST_TEST(members.are_in(3, members[0].id()));
}

BOOST_AUTO_TEST_CASE(the_application_chooses_the_root_of_each_view) {
  Members members(3, {.root = [](const View& view) { return view.members.back().id; }});
  BOOST_TEST(members.are_in(3, members[2].id()));
  BOOST_TEST(failed_with(members.part(0).group->change_root(members[0].id()), Errc::invalid_argument));
  members.processes.pop_back();
  BOOST_TEST(members.are_in(2, members[1].id()));
}

BOOST_AUTO_TEST_CASE(a_member_that_leaves_the_group_alone_stays_in_the_membership_and_may_come_back) {
  Members members(3);
  BOOST_TEST(members.are_in(3, members[0].id()));
  members.part(0).send(message(0));
  BOOST_TEST(failed_with(members[2].membership->create_group(kNumber, {}, {}), Errc::already_exists));
  members[2].part.reset();
  for (const std::size_t i : {0, 1}) BOOST_TEST(members.part(i).is_in(2, members[0].id()));
  members.part(0).send(message(1));
  BOOST_TEST(members.part(1).has(2));
  members[2].make_part(members.options());
  BOOST_TEST(members.are_in(3, members[0].id()));
  members.part(0).send(message(2));
  for (const std::size_t i : {1, 2}) BOOST_TEST(members.part(i).has(3));
  BOOST_TEST(members[0].membership->view().members.size() == 3U);
}

BOOST_AUTO_TEST_CASE(a_member_that_is_removed_is_told_that_its_group_is_over_and_the_others_go_on) {
  Members members(3);
  BOOST_TEST(members.are_in(3, members[0].id()));
  members[1].membership->remove(members[0].id());
  Part& removed = members.part(0);
  BOOST_TEST(removed.told.wait([&] { return removed.ended.has_value(); }));
  BOOST_TEST((removed.ended->code == Errc::cancelled));
  for (const std::size_t i : {1, 2}) BOOST_TEST(members.part(i).is_in(2, members[1].id()));
  BOOST_TEST(failed_with(removed.group->send({}), Errc::cancelled));
  BOOST_TEST(failed_with(members[0].membership->create_group(GroupNumber{9}, {}, {}), Errc::cancelled));
  members.part(1).send(message(0));
  BOOST_TEST(members.part(2).has(1));
}

BOOST_AUTO_TEST_CASE(offers_of_a_node_by_a_non_member_or_to_another_member_or_malformed_are_refused) {
  using namespace rdmc::member_groups;
  Members members(2);
  BOOST_TEST(members.are_in(2, members[0].id()));
  const auto options = options_for(members.store.address(), "outsider");
  const auto peers = options.context->peers(identity_of(options)).value();
  const Address address = members[1].membership->address();
  const auto refusal = [&](const Bytes& greeting) {
    Told told;
    std::optional<Errc> code;
    const auto asking = peers->open(host_string(address), address.port, seconds(30), "groups of g",
                                    {greeting, {}}, [&](const Result<control::Channel>& channel, auto&&) {
                                      told.tell([&] { code = channel ? Errc{} : channel.error().code; });
                                    });
    BOOST_TEST(told.wait([&] { return code.has_value(); }));
    return code;
  };
  Greeting greeting{.from = MemberId{99}, .to = members[1].id(), .purpose = Purpose::node, .group = kNumber};
  BOOST_TEST((refusal(encode_greeting(greeting)) == Errc::cancelled));
  // The greeting names a member of the group, but the offer is invalid. The group must continue.
  greeting.from = members[0].id();
  BOOST_TEST((refusal(encode_greeting(greeting)) == Errc::cancelled));
  greeting.to = members[0].id();
  BOOST_TEST((refusal(encode_greeting(greeting)) == Errc::peer_failed));
  BOOST_TEST((refusal({std::byte{0x80}}) == Errc::protocol_error));
  members.part(0).send(message(0));
  BOOST_TEST(members.part(1).has(1));
}

/// The member `silent` is in the view and offers the service for groups, but it never reports to the
/// coordinator.
BOOST_AUTO_TEST_CASE(a_member_that_tells_nothing_about_its_groups_holds_up_no_group_for_ever) {
  const OneStore store;
  Process one(store, "one");
  BOOST_TEST_REQUIRE(one.sees(1));
  Process two(store, "two");
  BOOST_TEST_REQUIRE((one.sees(2) && two.sees(2)));
  const auto options = options_for(store.address(), "silent");
  const auto peers = options.context->peers(identity_of(options)).value();
  const auto serving = peers
                           ->serve("groups of g",
                                   [](peer::Request request) {
                                     request.refuse({Errc::already_exists, "this member knows groups"});
                                   })
                           .value();
  const auto client =
      store::EmbeddedStore::create(peers->loop(),
                                   {.nodes = {store.address()}, .channel = {.security = control::Insecure{}}})
          .value();
  auto silent = membership::Membership::join(peers, *client,
                                             {.group = "g",
                                              .name = "silent",
                                              .listen = Address::ipv4(127, 0, 0, 1, 0),
                                              .fabric = "udp",
                                              .context = options.context},
                                             {})
                    .value();
  BOOST_TEST_REQUIRE((one.sees(3) && two.sees(3)));
  Part &root = one.make_part({.first_members = 2}), &other = two.make_part({.first_members = 2});
  BOOST_TEST((root.is_in(2, one.id()) && other.is_in(2, one.id())));
  root.send(message(0));
  BOOST_TEST(other.has(1));
  silent.reset();
}

BOOST_AUTO_TEST_CASE(options_of_a_group_that_make_no_sense_are_refused) {
  const OneStore store;
  Process one(store, "one");
  for (const GroupOptions& group :
       {GroupOptions{.epoch = 1}, GroupOptions{.racks = {1}}, GroupOptions{.read_only = true}})
    BOOST_TEST(
        failed_with(one.membership->create_group(kNumber, {.group = group}, {}), Errc::invalid_argument));
}

BOOST_AUTO_TEST_CASE(an_upcall_of_a_group_that_makes_another_one_is_refused_and_the_group_goes_on) {
  Members members(2);
  BOOST_TEST(members.are_in(2, members[0].id()));
  members[1].part.reset();
  std::optional<Errc> refused;
  bool has_come = false;
  Told told;
  MemberGroupCallbacks on;
  std::vector<std::byte> room(40'000);
  on.incoming = [&](std::uint64_t, std::uint64_t bytes) { return std::span(room).first(bytes); };
  on.continued = [&](const GroupView&) {
    const auto made = members[1].membership->create_group(GroupNumber{8}, {}, {});
    told.tell([&] { refused = made ? Errc::corrupt : made.error().code; });
  };
  on.delivered = [&](std::uint64_t, std::span<std::byte>) { told.tell([&] { has_come = true; }); };
  const auto group = members[1].membership->create_group(kNumber, members.options(), on).value();
  BOOST_TEST(told.wait([&] { return refused.has_value(); }));
  BOOST_TEST((*refused == Errc::invalid_argument));
  members.part(0).send(message(0));
  BOOST_TEST(told.wait([&] { return has_come; }));
}

BOOST_AUTO_TEST_CASE(a_member_that_has_too_little_memory_ends_and_the_others_go_on_without_it) {
  Members members(3);
  BOOST_TEST(members.are_in(3, members[0].id()));
  members[2].part.reset();
  std::vector<std::byte> little(10);
  std::optional<Error> ended;
  bool is_in = false;
  Told told;
  MemberGroupCallbacks on;
  on.incoming = [&](std::uint64_t, std::uint64_t) { return std::span(little); };
  on.continued = [&](const GroupView&) { told.tell([&] { is_in = true; }); };
  on.ended = [&](const Error& cause) { told.tell([&] { ended = cause; }); };
  const auto poor = members[2].membership->create_group(kNumber, members.options(), on).value();
  BOOST_TEST(told.wait([&] { return is_in; }));
  members.part(0).send(message(0));
  BOOST_TEST(told.wait([&] { return ended.has_value(); }));
  BOOST_TEST((ended->code == Errc::invalid_argument));
  for (const std::size_t i : {0, 1}) BOOST_TEST(members.part(i).is_in(2, members[0].id()));
  BOOST_TEST(members.part(1).has(1));
}

BOOST_AUTO_TEST_CASE(when_a_receiver_is_killed_the_others_get_every_message) {
  const OneStore store;
  Process one(store, "one");
  BOOST_TEST_REQUIRE(one.sees(1));
  Process two(store, "two");
  KilledProcess killed(store, 3);
  BOOST_TEST_REQUIRE((one.sees(3) && two.sees(3)));
  const MemberGroupOptions options{.group = {.block_bytes = 4096}, .first_members = 3};
  Part &root = one.make_part(options), &other = two.make_part(options);
  BOOST_TEST((root.is_in(3, one.id()) && other.is_in(3, one.id())));
  for (std::uint64_t i = 0; i < 100; ++i) {
    root.send(message(i));
    if (i == 50) killed.kill();
  }
  BOOST_TEST((root.is_in(2, one.id()) && other.is_in(2, one.id())));
  BOOST_TEST(other.has(100));
  BOOST_TEST(other.is_without_gaps());
  for (std::uint64_t i = 0; i < 100; ++i) BOOST_TEST((other.delivered.at(i) == message(i)));
}

BOOST_AUTO_TEST_CASE(when_the_root_is_killed_all_survivors_have_the_same_and_the_next_one_sends_on) {
  const OneStore store;
  KilledProcess root(store, 3);
  Process one(store, "one");
  BOOST_TEST_REQUIRE(one.sees(2));
  Process two(store, "two");
  BOOST_TEST_REQUIRE((one.sees(3) && two.sees(3)));
  // While the killed process is in the view, it is the root, in any order of joining. After that, the oldest
  // member is the root.
  const auto killed_or_oldest = [](const View& view) {
    const auto found = std::ranges::find(view.members, "killed", &Member::name);
    return found == view.members.end() ? view.members.front().id : found->id;
  };
  const MemberGroupOptions options{
      .group = {.block_bytes = 4096}, .first_members = 3, .root = killed_or_oldest};
  Part &first = one.make_part(options), &second = two.make_part(options);
  BOOST_TEST_REQUIRE((first.has(50) && second.has(20)));
  root.kill();
  BOOST_TEST((first.is_in(2, one.id()) && second.is_in(2, one.id())));
  BOOST_TEST(first.now.next == second.now.next);
  const std::uint64_t next = first.now.next;
  BOOST_TEST(first.send(message(next)) == next);
  BOOST_TEST(second.has(next + 1));
  BOOST_TEST(first.delivered.size() == next);
  expect_alike(first, second);
  for (std::uint64_t i = 0; i <= next; ++i) BOOST_TEST((second.delivered.at(i) == message(i)));
}

BOOST_AUTO_TEST_SUITE_END()

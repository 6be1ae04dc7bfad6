// Tests which peers may access memory, with which key, and until when.
#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "tests/lib/unicast/endpoints.hpp"

BOOST_AUTO_TEST_SUITE(region_test)

using namespace rdmc;
using namespace rdmc::testing;

namespace {

constexpr std::array<const char*, 3> kFabrics{"udp", "shm", "auto"};

/// An endpoint with memory, and two peers that are connected to this endpoint.
struct World {
  explicit World(const char* fabric, std::size_t bytes = 4096)
      : memory(bytes), owner({.fabric = fabric}), first({.fabric = fabric}), second({.fabric = fabric}) {
    std::tie(first_here, first_there) = connect(first, owner, 0);
    std::tie(second_here, second_there) = connect(second, owner, 1);
    region = std::move(*owner->register_memory(memory, kAllAccess));
  }
  std::vector<std::byte> memory;
  Party owner, first, second;
  Connection first_here, first_there, second_here, second_there;
  Region region;
};

const std::vector<std::byte> kOnes(100, std::byte{1}), kTwos(100, std::byte{2});

}  // namespace

BOOST_AUTO_TEST_CASE(after_a_revocation_the_old_key_changes_no_byte_and_other_peers_keys_still_work) {
  for (const char* const fabric : kFabrics) {
    BOOST_TEST_CONTEXT(fabric) {
      World world(fabric);
      const auto firsts = *world.region.grant(world.first_there);
      const auto seconds = *world.region.grant(world.second_there);
      BOOST_TEST((firsts.key != seconds.key));
      BOOST_TEST(firsts.length == world.memory.size());
      BOOST_REQUIRE(world.first_here.write(kOnes, firsts, 0, 1));
      BOOST_TEST(is(world.first.next(), WorkKind::write, 1));
      BOOST_TEST(std::ranges::equal(kOnes, std::span(world.memory).first(kOnes.size())));

      BOOST_TEST(world.region.revoke(world.first_there).has_value());
      const auto before = world.memory;
      BOOST_REQUIRE(world.first_here.write(kTwos, firsts, 0, 2));
      const auto sent = world.first_here.send({}, 3);
      BOOST_TEST(is(world.first.next(), WorkKind::write, 2, WorkStatus::remote_access));
      if (sent) {
        BOOST_TEST(is(world.first.next(), WorkKind::send, 3, WorkStatus::flushed));
      } else {  // The refusal arrived before this send.
        BOOST_TEST((sent.error().code == Errc::peer_failed));
      }
      BOOST_TEST((world.first.end_of(world.first_here).code == Errc::permission_denied));
      BOOST_TEST((world.owner.end_of(world.first_there).code == Errc::peer_failed));
      BOOST_TEST((world.memory == before));
      BOOST_TEST(failed_with(world.first_here.send({}, 4), Errc::peer_failed));

      BOOST_REQUIRE(world.second_here.write(kTwos, seconds, 200, 1));
      BOOST_TEST(is(world.second.next(), WorkKind::write, 1));
      BOOST_TEST(std::ranges::equal(kTwos, std::span(world.memory).subspan(200, kTwos.size())));
      BOOST_TEST((world.owner->counters().grants == 2 && world.owner->counters().revocations == 1));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_peer_that_lost_its_key_connects_again_and_gets_another_one) {
  for (const char* const fabric : kFabrics) {
    BOOST_TEST_CONTEXT(fabric) {
      World world(fabric);
      const auto old_key = *world.region.grant(world.first_there);
      BOOST_TEST(world.region.revoke(world.first_there).has_value());
      BOOST_REQUIRE(world.first_here.write(kOnes, old_key, 0, 1));
      BOOST_TEST(is(world.first.next(), WorkKind::write, 1, WorkStatus::remote_access));
      world.first.end_of(world.first_here);
      BOOST_TEST(failed_with(world.region.grant(world.first_there), Errc::peer_failed));

      const auto [here, there] = connect(world.first, world.owner, 2);
      BOOST_TEST((here.id() != world.first_here.id()));
      const auto key = *world.region.grant(there);
      BOOST_TEST((key.key != old_key.key));
      BOOST_REQUIRE(here.write(kTwos, key, 0, 2));
      BOOST_TEST(is(world.first.next(), WorkKind::write, 2));
      BOOST_TEST(std::ranges::equal(kTwos, std::span(world.memory).first(kTwos.size())));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_key_taken_back_before_it_was_used_can_be_granted_anew_on_the_same_connection) {
  World world("auto");
  const auto old_key = *world.region.grant(world.first_there);
  BOOST_TEST(failed_with(world.region.grant(world.first_there), Errc::already_exists));
  BOOST_TEST(world.region.revoke(world.first_there).has_value());
  BOOST_TEST(world.region.revoke(world.first_there).has_value());  // This succeeds although there is no key.
  const auto key = *world.region.grant(world.first_there);
  BOOST_TEST((key.key != old_key.key));
  BOOST_REQUIRE(world.first_here.write(kOnes, key, 0, 1));
  BOOST_TEST(is(world.first.next(), WorkKind::write, 1));
}

BOOST_AUTO_TEST_CASE(no_write_of_a_stream_changes_a_byte_after_revoke_has_returned) {
  for (const char* const fabric : kFabrics) {
    BOOST_TEST_CONTEXT(fabric) {
      // The region is large, so that the stream of writes takes longer than one call.
      World world(fabric, 64 * 1024);
      const auto key = *world.region.grant(world.first_there);
      std::vector<std::vector<std::byte>> sources;
      for (int i = 0; i < 200; ++i) sources.emplace_back(world.memory.size(), std::byte(i + 1));
      for (std::size_t i = 0; i < sources.size(); ++i)
        BOOST_REQUIRE(world.first_here.write(sources[i], key, 0, i));
      world.first.next(20);  // From here on, the stream is running.
      BOOST_TEST(world.region.revoke(world.first_there).has_value());
      const auto before = world.memory;
      // If all writes of the stream completed before the revocation, this write is refused.
      const bool is_taken = world.first_here.write(sources[0], key, 0, sources.size()).has_value();
      const auto rest = world.first.next(sources.size() - 20 + (is_taken ? 1 : 0));
      world.second_here.disconnect();
      // From here on, no packet of the stream is in flight.
      world.owner.end_of(world.second_there);
      BOOST_TEST((world.memory == before));
      // The writes before the revocation must have succeeded. One write must have been refused. The later
      // ones must not have been sent.
      const auto refused =
          std::ranges::find_if(rest, [](const Completion& one) { return one.status != WorkStatus::success; });
      BOOST_TEST_REQUIRE((refused != rest.end()));
      BOOST_TEST((refused->status == WorkStatus::remote_access));
      BOOST_TEST(std::all_of(refused + 1, rest.end(),
                             [](const Completion& one) { return one.status == WorkStatus::flushed; }));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_key_is_good_on_its_own_connection_only) {
  for (const char* const fabric : kFabrics) {
    BOOST_TEST_CONTEXT(fabric) {
      World world(fabric);
      const auto firsts = *world.region.grant(world.first_there);
      BOOST_REQUIRE(world.second_here.write(kOnes, firsts, 0, 1));
      BOOST_TEST(is(world.second.next(), WorkKind::write, 1, WorkStatus::remote_access));
      BOOST_TEST((world.memory == std::vector<std::byte>(world.memory.size())));
      BOOST_REQUIRE(world.first_here.write(kOnes, firsts, 0, 1));
      BOOST_TEST(is(world.first.next(), WorkKind::write, 1));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_region_permits_what_it_was_registered_for_and_nothing_else) {
  Party owner({.fabric = "auto"}), peer({.fabric = "auto"});
  std::vector<std::byte> memory(64);
  BOOST_TEST(failed_with(owner->register_memory(memory, RemoteAccess::none), Errc::invalid_argument));
  BOOST_TEST(failed_with(owner->register_memory(memory, RemoteAccess::write | RemoteAccess::invalidate),
                         Errc::invalid_argument));
  const auto [here, there] = connect(peer, owner);
  auto region = std::move(*owner->register_memory(memory, RemoteAccess::write));
  const auto key = *region.grant(there);
  std::vector<std::byte> room(64);
  BOOST_REQUIRE(here.write(kOnes.size() > 64 ? std::span(kOnes).first(64) : std::span(kOnes), key, 0, 1));
  BOOST_REQUIRE(here.read(room, key, 0, 2));
  BOOST_TEST(is(peer.next(), WorkKind::write, 1));
  BOOST_TEST(is(peer.next(), WorkKind::read, 2, WorkStatus::remote_access));
  BOOST_TEST((room == std::vector<std::byte>(64)));
}

BOOST_AUTO_TEST_CASE(keys_of_one_region_permit_different_things_within_what_the_region_permits) {
  for (const char* const fabric : kFabrics) {
    BOOST_TEST_CONTEXT(fabric) {
      World world(fabric);
      world.region = *world.owner->register_memory(world.memory, RemoteAccess::read | RemoteAccess::write);
      for (const RemoteAccess access :
           {RemoteAccess::none, RemoteAccess::atomic, RemoteAccess::read | RemoteAccess::invalidate})
        BOOST_TEST(
            failed_with(world.region.grant(world.first_there, {.access = access}), Errc::invalid_argument));
      const auto writes = *world.region.grant(world.first_there);
      const auto reads = *world.region.grant(world.second_there, {.access = RemoteAccess::read});
      BOOST_REQUIRE(world.first_here.write(kOnes, writes, 0, 1));
      BOOST_TEST(is(world.first.next(), WorkKind::write, 1));
      std::vector<std::byte> room(kOnes.size());
      BOOST_REQUIRE(world.second_here.read(room, reads, 0, 1));
      BOOST_TEST(is(world.second.next(), WorkKind::read, 1));
      BOOST_TEST((room == kOnes));
      BOOST_REQUIRE(world.second_here.write(kTwos, reads, 0, 2));
      BOOST_TEST(is(world.second.next(), WorkKind::write, 2, WorkStatus::remote_access));
      BOOST_TEST(std::ranges::equal(kOnes, std::span(world.memory).first(kOnes.size())));
    }
  }
}

BOOST_AUTO_TEST_CASE(the_end_of_a_region_takes_back_all_its_keys) {
  World world("udp");
  const auto key = *world.region.grant(world.first_there);
  world.region = Region();
  BOOST_REQUIRE(world.first_here.write(kOnes, key, 0, 1));
  BOOST_TEST(is(world.first.next(), WorkKind::write, 1, WorkStatus::remote_access));
  BOOST_TEST((world.memory == std::vector<std::byte>(world.memory.size())));
}

BOOST_AUTO_TEST_CASE(a_region_that_another_takes_the_place_of_ends) {
  World world("udp");
  const auto key = *world.region.grant(world.first_there);
  std::vector<std::byte> others(4096);
  Region next = *world.owner->register_memory(others, kAllAccess);
  world.region = std::move(next);
  BOOST_REQUIRE(world.first_here.write(kOnes, key, 0, 1));
  BOOST_TEST(is(world.first.next(), WorkKind::write, 1, WorkStatus::remote_access));
}

BOOST_AUTO_TEST_CASE(a_region_lets_in_no_connection_of_another_endpoint) {
  World world("udp");
  // first_here and first_there are each the first connection of their endpoint, so their numbers are equal.
  BOOST_TEST(failed_with(world.region.grant(world.first_here), Errc::invalid_argument));
  const auto key = *world.region.grant(world.first_there);
  BOOST_TEST(world.region.revoke(world.first_here).has_value());
  BOOST_REQUIRE(world.first_here.write(kOnes, key, 0, 1));
  BOOST_TEST(is(world.first.next(), WorkKind::write, 1));
}

BOOST_AUTO_TEST_CASE(memory_for_atomic_operations_begins_at_a_multiple_of_eight) {
  World world("udp");
  const auto odd = std::span(world.memory).subspan(1, 64);
  BOOST_TEST(failed_with(world.owner->register_memory(odd, kAllAccess), Errc::invalid_argument));
  BOOST_TEST(world.owner->register_memory(odd, RemoteAccess::write).has_value());
}

BOOST_AUTO_TEST_CASE(a_region_may_outlive_its_endpoint) {
  World world("udp");
  world.owner.destroy();
  BOOST_TEST(failed_with(world.region.grant(world.first_there), Errc::peer_failed));
  BOOST_TEST(world.region.revoke(world.first_there).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

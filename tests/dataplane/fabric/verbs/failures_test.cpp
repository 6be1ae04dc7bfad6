// Tests the verbs provider on a real device: an error of a peer, or its end, ends only the connection to this
// peer.
#include <boost/test/unit_test.hpp>

#include "dataplane/fabric/connection_blob.hpp"
#include "tests/dataplane/fabric/verbs/verbs_pair.hpp"

using namespace rdmc;
using namespace rdmc::fabric;
using namespace rdmc::fabric::testing;

BOOST_AUTO_TEST_CASE(a_key_that_was_taken_back_or_does_not_permit_it_changes_nothing) {
  enum class Wrong { revoked, range, rights };
  for (const Wrong wrong : {Wrong::revoked, Wrong::range, Wrong::rights}) {
    Pair pair;
    const auto source = random_bytes(4096);
    std::vector<std::byte> target(8192);
    const auto before = target;
    auto region = pair[1]
                      .fabric
                      ->register_memory(std::span(target).first(4096), MemoryUse::general,
                                        wrong == Wrong::rights ? RemoteAccess::read : RemoteAccess::write)
                      .value();
    const WriteRequest write{.work_id = 5,
                             .bytes = source,
                             .remote_address = region->remote_address() + (wrong == Wrong::range ? 1 : 0),
                             .remote_key = region->remote_key()};
    if (wrong == Wrong::revoked) region.reset();
    BOOST_REQUIRE(pair[0].queue_pair->post_write(write));
    BOOST_REQUIRE(pair.run_until_done(0, 1));
    BOOST_TEST((pair[0].done[0].status == WorkStatus::remote_access));
    BOOST_TEST((pair[0].queue_pair->state() == QueuePairState::error));
    BOOST_TEST(pair[0].queue_pair->error_cause() == "the peer refused access: key or range revoked or wrong");
    BOOST_TEST((target == before));
    const auto refused = pair[0].queue_pair->post_write(write);
    BOOST_REQUIRE(!refused);
    BOOST_TEST((refused.error().code == Errc::peer_failed));
    // The device reports the error to the other side by an event. Soft-RoCE reports it only when the other
    // side wants to send.
    std::ignore = pair[1].queue_pair->post_send({.bytes = std::span(source).first(8)});
    BOOST_TEST(pair.run_until([&] { return pair[1].queue_pair->state() == QueuePairState::error; }));
  }
}

// The kernel searches for the address of a silent peer for a second. Meanwhile the fabric thread must
// continue its other work.
BOOST_AUTO_TEST_CASE(a_peer_that_is_not_there_holds_up_nobody_and_is_named) {
  Side side;
  side.open({.largest_receive = 100});
  auto nobody = *decode_connection(side.queue_pair->local_blob());
  nobody.shared.bytes[3] ^= 0x5A;  // An unused address on the same link.
  const auto message = random_bytes(60);
  Time start = monotonic_now();
  BOOST_REQUIRE(side.queue_pair->connect(encode(nobody)));
  BOOST_TEST((side.queue_pair->state() == QueuePairState::ready));
  for (std::uint64_t i = 0; i < 3; ++i)
    BOOST_REQUIRE(side.queue_pair->post_send({.work_id = i, .bytes = message}));
  BOOST_TEST((monotonic_now() - start).seconds() < 0.5);
  for (const Time end = start + seconds(20); side.done.size() < 3 && monotonic_now() < end;) {
    const Time before = monotonic_now();
    side.turn();
    BOOST_REQUIRE((monotonic_now() - before).seconds() < 0.5);
    side.fabric->wait(monotonic_now() + milliseconds(50));
  }
  BOOST_REQUIRE(side.done.size() == 3u);
  for (std::uint64_t i = 0; i < 3; ++i) {
    BOOST_TEST(side.done[i].work_id == i);
    BOOST_TEST((side.done[i].status != WorkStatus::success));
  }
  BOOST_TEST((side.queue_pair->state() == QueuePairState::error));
  BOOST_TEST(side.queue_pair->error_cause().find("connecting through") != std::string::npos,
             side.queue_pair->error_cause());
}

BOOST_AUTO_TEST_CASE(a_queue_pair_whose_peer_is_being_looked_for_ends_at_once) {
  Side side;
  side.open({});
  auto nobody = *decode_connection(side.queue_pair->local_blob());
  nobody.shared.bytes[3] ^= 0x5A ^ 0x11;
  std::vector<std::byte> own(100);
  for (const std::uint32_t largest_receive : {0U, 100U, 0U, 100U}) {
    side.queue_pair = side.fabric->create_queue_pair({.largest_receive = largest_receive}).value();
    BOOST_REQUIRE(side.queue_pair->post_receive({.bytes = own}));
    // Each round has a new address, because the kernel remembers the addresses that it did not find.
    nobody.shared.bytes[3] ^= 1;
    BOOST_REQUIRE(side.queue_pair->connect(encode(nobody)));
    const Time before = monotonic_now();
    side.queue_pair.reset();
    side.fabric->progress(monotonic_now());
    BOOST_TEST((monotonic_now() - before).seconds() < 0.5);
  }
  // The destroyed queue pairs must have no effect on new ones.
  Pair pair({.largest_receive = 100});
  BOOST_REQUIRE(pair[1].queue_pair->post_receive({.bytes = own}));
  BOOST_REQUIRE(pair[0].queue_pair->post_send({.bytes = std::span(own).first(8)}));
  BOOST_TEST(pair.run_until_done(1, 1));
}

BOOST_AUTO_TEST_CASE(what_comes_before_its_receive_waits_for_it_and_who_sends_too_much_is_cut_off_alone) {
  Pair pair({.send_depth = 512, .largest_receive = 100});
  // Makes a second connection between the same two fabrics.
  std::array<std::unique_ptr<QueuePair>, 2> other{
      pair[0].fabric->create_queue_pair({.largest_receive = 100}).value(),
      pair[1].fabric->create_queue_pair({.largest_receive = 100}).value()};
  for (std::size_t i = 0; i < 2; ++i) BOOST_REQUIRE(other[i]->connect(other[1 - i]->local_blob()));
  const auto message = random_bytes(60);
  std::vector<std::byte> room(60);
  const auto send = [&] { BOOST_REQUIRE(pair[0].queue_pair->post_send({.bytes = message})); };
  send();
  BOOST_REQUIRE(pair.run_until_done(0, 1));
  BOOST_REQUIRE(pair[1].queue_pair->post_receive({.work_id = 1, .bytes = room}));
  BOOST_REQUIRE(pair.run_until_done(1, 1));
  BOOST_TEST((pair[1].done[0].status == WorkStatus::success));
  BOOST_TEST((room == message));
  for (int i = 0; i < 400; ++i) send();
  BOOST_REQUIRE(pair.run_until([&] { return pair[1].queue_pair->state() == QueuePairState::error; }));
  BOOST_TEST(pair[1].queue_pair->error_cause() == "the peer sent more messages than it was granted receives");
  std::vector<std::byte> received(60);
  BOOST_REQUIRE(other[1]->post_receive({.work_id = 3, .bytes = received}));
  BOOST_REQUIRE(other[0]->post_send({.bytes = message}));
  Completion completion;
  BOOST_REQUIRE(pair.run_until([&] { return other[1]->poll_completions({&completion, 1}) == 1; }));
  BOOST_TEST((completion.status == WorkStatus::success));
  BOOST_TEST((received == message));
}

BOOST_AUTO_TEST_CASE(a_message_longer_than_its_receive_ends_the_connection_and_flushes_the_rest) {
  for (const std::uint32_t largest : {0U, 100U}) {
    Pair pair({.receive_depth = 4, .largest_receive = largest});
    const auto message = random_bytes(60);
    std::vector<std::byte> room(10);
    for (std::uint64_t i = 0; i < 2; ++i)
      BOOST_REQUIRE(pair[1].queue_pair->post_receive({.work_id = i, .bytes = room}));
    BOOST_REQUIRE(pair[0].queue_pair->post_send({.bytes = message}));
    BOOST_REQUIRE(pair.run_until_done(1, 2));
    // If the queue pair has its own receive queue, the device detects the error. Soft-RoCE then reports
    // another status.
    const auto status = pair[1].done[0].status;
    BOOST_TEST((largest == 0 ? status != WorkStatus::success : status == WorkStatus::local_length),
               name(status));
    BOOST_TEST((pair[1].done[1].status == WorkStatus::flushed));
    BOOST_TEST((room == std::vector<std::byte>(10)));
  }
}

BOOST_AUTO_TEST_CASE(queue_pairs_that_end_under_traffic_take_no_shared_slots_along) {
  Side receiver;
  // While this queue pair exists, the shared receive queue is not replaced by a new one.
  receiver.open({.receive_depth = 64, .largest_receive = 64});
  const auto message = random_bytes(40);
  for (int round = 0; round < 30; ++round) {
    Side sender;
    sender.open({.largest_receive = 64});
    auto doomed = receiver.fabric->create_queue_pair({.receive_depth = 64, .largest_receive = 64}).value();
    BOOST_REQUIRE(sender.queue_pair->connect(doomed->local_blob()));
    BOOST_REQUIRE(doomed->connect(sender.queue_pair->local_blob()));
    for (int i = 0; i < 64; ++i) BOOST_REQUIRE(sender.queue_pair->post_send({.bytes = message}));
    for (const Time end = monotonic_now() + milliseconds(5); monotonic_now() < end;) sender.turn();
    // In total, 1,920 messages were sent, more than the 1,024 slots.
  }
  Side sender;
  sender.open({.largest_receive = 64});
  BOOST_REQUIRE(sender.queue_pair->connect(receiver.queue_pair->local_blob()));
  BOOST_REQUIRE(receiver.queue_pair->connect(sender.queue_pair->local_blob()));
  std::vector<std::byte> room(40);
  BOOST_REQUIRE(receiver.queue_pair->post_receive({.bytes = room}));
  BOOST_REQUIRE(sender.queue_pair->post_send({.bytes = message}));
  for (const Time end = monotonic_now() + seconds(10); receiver.done.empty() && monotonic_now() < end;) {
    receiver.turn();
    sender.turn();
  }
  BOOST_REQUIRE(receiver.done.size() == 1u);
  BOOST_TEST((room == message));
}

BOOST_AUTO_TEST_CASE(a_peer_that_is_gone_is_given_up_in_bounded_time) {
  Pair pair({.ack_timeout = milliseconds(10), .retry_limit = 7});
  const auto message = random_bytes(100);
  pair[1].queue_pair.reset();
  const Time start = monotonic_now();
  BOOST_REQUIRE(pair[0].queue_pair->post_send({.work_id = 1, .bytes = message}));
  BOOST_REQUIRE(pair[0].queue_pair->post_send({.work_id = 2, .bytes = message}));
  BOOST_REQUIRE(pair.run_until_done(0, 2));
  BOOST_TEST((monotonic_now() - start).seconds() < 5.0);
  BOOST_TEST((pair[0].done[0].status == WorkStatus::retry_exceeded));
  BOOST_TEST((pair[0].done[1].status == WorkStatus::flushed));
  BOOST_TEST(pair[0].queue_pair->error_cause() == "the peer stopped acknowledging");
}

BOOST_AUTO_TEST_CASE(a_peer_that_never_posts_a_receive_is_given_up_in_bounded_time) {
  Pair pair({.ack_timeout = milliseconds(5), .rnr_patience = milliseconds(500)});
  const auto message = random_bytes(100);
  const Time start = monotonic_now();
  BOOST_REQUIRE(pair[0].queue_pair->post_send({.work_id = 1, .bytes = message}));
  BOOST_REQUIRE(pair.run_until_done(0, 1));
  BOOST_TEST((monotonic_now() - start).seconds() < 5.0);
  // Soft-RoCE waits for a receive of the peer. It counts this time as silence of the peer, so both causes are
  // permitted.
  const std::string cause = pair[0].queue_pair->error_cause();
  BOOST_TEST((cause == "the peer posted no receive" || cause == "the peer stopped acknowledging"), cause);
}

BOOST_AUTO_TEST_CASE(an_address_without_a_device_and_a_blob_that_a_nic_cannot_reach_are_refused_by_name) {
  const auto elsewhere = VerbsFabric::open(Address::ipv4(192, 0, 2, 1, 0), [] { return 1U; });
  BOOST_REQUIRE(!elsewhere);
  BOOST_TEST((elsewhere.error().code == Errc::not_found));
  BOOST_TEST(elsewhere.error().what.find("192.0.2.1") != std::string::npos);
  Side side;
  side.open({});
  auto info = decode_connection(side.queue_pair->local_blob()).value();
  info.nic = info.foreign = false;
  info.shared.port = 5000;
  const auto refused = side.queue_pair->connect(encode(info));
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().code == Errc::unsupported));
  BOOST_TEST(refused.error().what.find("4791") != std::string::npos);
}

// Tests that connections and messages that arrive at a fabric's sockets use only a limited part of a turn.
// Connections that send nothing must not keep other connections out.
#include <boost/test/unit_test.hpp>

#include "dataplane/fabric/shm/queue_memory.hpp"
#include "dataplane/memory/shared_pages.hpp"
#include "tests/dataplane/fabric/shm/shm_pair.hpp"

BOOST_AUTO_TEST_SUITE(pending_connections_test)

using namespace rdmc;
using namespace rdmc::fabric;
using namespace rdmc::fabric::shm;
using fabric::testing::open_shm_fabric;

namespace {

/// Makes up to `most` connections to the listener. Makes fewer if the listener accepts fewer.
std::vector<LocalSocket> dial(const Token& listener, std::size_t most) {
  std::vector<LocalSocket> connections;
  while (connections.size() < most) {
    auto socket = LocalSocket::dial(listener);
    if (!socket) break;
    connections.push_back(std::move(*socket));
  }
  return connections;
}

std::size_t turned_away(const std::vector<LocalSocket>& connections) {
  return static_cast<std::size_t>(std::ranges::count_if(connections, &LocalSocket::is_hung_up));
}

/// Two fabrics with one queue pair each. The first queue pair dials the second one.
struct Outsiders {
  Outsiders() {
    fabrics = {open_shm_fabric(), open_shm_fabric()};
    do {
      for (std::size_t i = 0; i < 2; ++i) pairs[i] = *fabrics[i]->create_queue_pair({});
    } while (!(blob(0).queue_pair < blob(1).queue_pair));
  }
  ShmBlob blob(std::size_t i) const { return *decode_shm_blob(pairs[i]->local_blob()); }
  void connect() {
    for (std::size_t i = 0; i < 2; ++i) BOOST_REQUIRE(pairs[i]->connect(pairs[1 - i]->local_blob()));
  }
  void turn() {
    for (const auto& fabric : fabrics) fabric->progress(monotonic_now());
  }
  bool meet() {
    BOOST_REQUIRE(pairs[0]->post_write({.bytes = {}}));
    Completion done;
    for (const Time end = monotonic_now() + seconds(10); monotonic_now() < end;) {
      turn();
      if (pairs[0]->poll_completions({&done, 1}) != 0) return done.status == WorkStatus::success;
    }
    return false;
  }
  std::array<std::unique_ptr<ShmFabric>, 2> fabrics;
  std::array<std::unique_ptr<QueuePair>, 2> pairs;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_process_that_is_refused_because_of_many_pending_connections_dials_again) {
  Outsiders two;
  auto crowd = dial(two.blob(1).listener, 1000);
  BOOST_TEST(crowd.size() < 1000u);
  two.connect();
  two.fabrics[0]->progress(monotonic_now());
  BOOST_TEST((two.pairs[0]->state() == QueuePairState::ready));
  BOOST_TEST((two.fabrics[0]->next_deadline() < monotonic_now() + seconds(1)));
  crowd.clear();
  BOOST_TEST(two.meet());
}

BOOST_AUTO_TEST_CASE(pending_connections_that_say_nothing_are_closed_and_keep_nobody_out) {
  Outsiders two;
  const auto crowd = dial(two.blob(1).listener, 256);
  ShmFabric& host = *two.fabrics[1];
  for (const Time end = monotonic_now() + seconds(5);
       turned_away(crowd) < crowd.size() && monotonic_now() < end;) {
    host.progress(monotonic_now());
  }
  BOOST_TEST(turned_away(crowd) == crowd.size());
  two.connect();
  BOOST_TEST(two.meet());
}

BOOST_AUTO_TEST_CASE(a_crowd_of_pending_connections_is_accepted_over_several_turns) {
  Outsiders two;
  const auto crowd = dial(two.blob(1).listener, 250);
  // No queue pair has the token of this message.
  for (const LocalSocket& connection : crowd)
    BOOST_REQUIRE(connection.send({.kind = MessageKind::hello}, {}));
  int turns = 0;
  for (std::size_t before = 0; before < crowd.size() && turns < 100'000; ++turns) {
    two.fabrics[1]->progress(monotonic_now());
    const std::size_t now = turned_away(crowd);
    BOOST_REQUIRE(now - before <= 64);
    before = now;
  }
  BOOST_TEST(turned_away(crowd) == crowd.size());
}

BOOST_AUTO_TEST_CASE(a_peer_that_floods_the_socket_is_read_over_several_turns) {
  auto fabric = open_shm_fabric();
  auto queue_pair = *fabric->create_queue_pair({});
  const ShmBlob ours = *decode_shm_blob(queue_pair->local_blob());
  // This blob has a smaller token. So the other side must dial.
  ShmBlob theirs = ours;
  theirs.queue_pair.fill(std::byte{0});
  BOOST_REQUIRE(queue_pair->connect(encode(theirs)));
  const auto memory = *memory::SharedPages::make(sizeof(QueueMemory), memory::SharedPages::Peers::may_read,
                                                 memory::Touch::when_used);
  const auto doorbell = *Doorbell::make();
  const auto peer = *LocalSocket::dial(ours.listener);
  const std::array<int, 2> both{memory.descriptor().get(), doorbell.descriptor().get()};
  BOOST_REQUIRE(
      peer.send({.kind = MessageKind::hello, .to = ours.queue_pair, .from = theirs.queue_pair}, both));
  const auto fill = [&] {
    std::size_t sent = 0;
    while (*peer.send({.kind = MessageKind::ring}, {})) ++sent;
    return sent;
  };
  BOOST_REQUIRE(fill() > 100);
  int busy = 0;
  for (const Time end = monotonic_now() + seconds(5); busy < 20 && monotonic_now() < end;) {
    fabric->progress(monotonic_now());
    const std::size_t again = fill();
    BOOST_REQUIRE(again < 100);
    if (again != 0) ++busy;
  }
  BOOST_TEST(busy == 20);
  BOOST_TEST((queue_pair->state() == QueuePairState::ready));
}

BOOST_AUTO_TEST_SUITE_END()

// Tests how connections begin and end: in order, by the death of a process, and with peers that break the
// protocol.
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <future>
#include <thread>

#include "controlplane/peer/context.hpp"
#include "lib/unicast/messages.hpp"
#include "tests/lib/unicast/endpoints.hpp"

BOOST_AUTO_TEST_SUITE(ending_test)

using namespace rdmc;
using namespace rdmc::testing;

namespace {

constexpr std::array<const char*, 3> kFabrics{"udp", "shm", "auto"};

/// A process that opens the channel of an endpoint without using the library's Endpoint.
class RawPeer {
 public:
  struct Answer {
    Result<control::Channel> channel;
    peer::Offer offer;
  };

  Result<peer::Offer> open(Party& to, const std::string& service, peer::Offer offer) {
    std::promise<Result<peer::Offer>> answered;
    handle_ = peers_->open("127.0.0.1", to->address().port, kPatience, service, std::move(offer),
                           [&](Result<control::Channel> channel, peer::Offer theirs) {
                             if (!channel) return answered.set_value(std::unexpected(channel.error()));
                             channel_.emplace(std::move(*channel));
                             channel_->start([](const auto&) {}, [](const Error&) {});
                             answered.set_value(std::move(theirs));
                           });
    return answered.get_future().get();
  }
  void say(const unicast::Bytes& bytes) {
    peers_->loop().call([&] { BOOST_REQUIRE(channel_->send(bytes)); });
  }
  fabric::ConnectionBlob blob() {
    return thread_->call([&] {
      queue_pair_ = std::move(*thread_->fabric().create_queue_pair({}));
      return queue_pair_->local_blob();
    });
  }
  ~RawPeer() {
    peers_->loop().call([&] { channel_.reset(); });
    thread_->call([&] { queue_pair_.reset(); });
  }

 private:
  peer::Context context_;
  std::shared_ptr<peer::Peers> peers_ =
      context_.peers({.key_file = {}, .certificates = {}, .insecure = true}).value();
  std::shared_ptr<peer::FabricThread> thread_ = context_.fabric_thread({.fabric = "udp"}).value();
  std::unique_ptr<fabric::QueuePair> queue_pair_;
  peer::Peers::Handle handle_;
  std::optional<control::Channel> channel_;
};

unicast::Bytes greeting() {
  return unicast::encode(unicast::Greeting{"raw peer", {}});
}

}  // namespace

BOOST_AUTO_TEST_CASE(peers_learn_who_the_other_one_is) {
  Party other({.name = "theirs", .fabric = "udp", .private_data = bytes_of("other")});
  Party us({.name = "ours", .fabric = "udp", .private_data = bytes_of("us")});
  auto place = other.place();
  const auto wrong = us->connect(place, kPatience);
  BOOST_TEST(failed_with(wrong, Errc::not_found));
  place.name = "theirs";
  const auto here = us->connect(place, kPatience);
  BOOST_REQUIRE(here);
  const auto there = other.connection();
  BOOST_TEST((here->peer().name == "theirs" && there.peer().name == "ours"));
  BOOST_TEST((here->peer().private_data == bytes_of("other") && there.peer().private_data == bytes_of("us")));
  BOOST_TEST(here->peer().address.port == place.port);
}

BOOST_AUTO_TEST_CASE(a_connection_that_one_side_ends_is_over_for_both_with_all_it_had_to_do) {
  for (const char* const fabric : kFabrics) {
    for (const Way way : kWays) {
      BOOST_TEST_CONTEXT(fabric << ", way " << static_cast<int>(way)) {
        Party other({.fabric = fabric}), us({.fabric = fabric}, way);
        const auto [here, there] = connect(us, other);
        std::vector<std::byte> room(8);
        const auto message = bytes_of("in time!");
        for (std::uint64_t i = 0; i < 3; ++i) BOOST_REQUIRE(here.post_receive(room, i));
        BOOST_REQUIRE(there.post_receive(room, 7));
        BOOST_REQUIRE(there.send(message, 8));
        BOOST_TEST(is(us.next(), WorkKind::receive, 0));
        here.disconnect();
        BOOST_TEST((us.end_of(here).code == Errc::cancelled));
        BOOST_TEST((other.end_of(there).code == Errc::cancelled));
        for (std::uint64_t i = 1; i < 3; ++i)
          BOOST_TEST(is(us.next(), WorkKind::receive, i, WorkStatus::flushed));
        // The message arrived before the end, and the acknowledgement of it left before the end.
        BOOST_TEST(is(other.next(), WorkKind::send, 8));
        BOOST_TEST(is(other.next(), WorkKind::receive, 7, WorkStatus::flushed));
        BOOST_TEST(failed_with(here.send({}, 0), Errc::peer_failed));
        BOOST_TEST(failed_with(there.send({}, 0), Errc::peer_failed));
        BOOST_TEST((us.disconnected() == 1 && other.disconnected() == 1));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(an_endpoint_that_ends_flushes_what_it_had_to_do_and_tells_its_peers) {
  for (const char* const fabric : kFabrics) {
    BOOST_TEST_CONTEXT(fabric) {
      Party other({.fabric = fabric}), us({.fabric = fabric}, Way::upcalls);
      const auto [here, there] = connect(us, other);
      const auto message = bytes_of("never");
      // The peer has posted no receive, so the send does not complete.
      BOOST_REQUIRE(here.send(message, 1));
      us.destroy();
      BOOST_TEST(is(us.next(), WorkKind::send, 1, WorkStatus::flushed));
      BOOST_TEST((us.end_of(here).code == Errc::cancelled));
      BOOST_TEST((other.end_of(there).code == Errc::cancelled));
      BOOST_TEST(failed_with(here.send(message, 1), Errc::peer_failed));
    }
  }
}

/// Runs a process that destroys an endpoint in an upcall. Returns the wait status of this process.
int end_of_a_process_that_destroys_an_endpoint_in_an_upcall(bool own_thread) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // A failing test must not hang.
    ::signal(SIGABRT, SIG_DFL);
    ::close(STDERR_FILENO);
    Endpoint* const endpoint = Endpoint::create({.name = "test",
                                                 .fabric = "udp",
                                                 .insecure = true,
                                                 .context = std::make_shared<peer::Context>(),
                                                 .own_thread = own_thread})
                                   .value()
                                   .release();
    endpoint->connect({.host = "127.0.0.1", .port = 1}, seconds(1),
                      [&](const Result<Connection>&) { delete endpoint; });
    for (;;)
      if (own_thread)
        ::pause();
      else
        endpoint->poll({}, milliseconds(10));
  }
  int status = 0;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

BOOST_AUTO_TEST_CASE(a_process_that_destroys_an_endpoint_in_an_upcall_stops_at_once) {
  for (const bool own_thread : {true, false}) {
    const int status = end_of_a_process_that_destroys_an_endpoint_in_an_upcall(own_thread);
    BOOST_TEST(WIFSIGNALED(status));
    BOOST_TEST(WTERMSIG(status) == SIGABRT);
  }
}

BOOST_AUTO_TEST_CASE(who_connects_while_the_endpoint_ends_is_told_that_it_does) {
  for (const Way way : {Way::upcalls, Way::drives_with_upcalls}) {
    Party other({.fabric = "udp"}), us({.fabric = "udp"}, way);
    Endpoint* const endpoint = &*us;
    std::vector<Errc> told;
    us.when_disconnected = [&] {
      endpoint->connect(other.place(), kPatience, [&, endpoint](const Result<Connection>& first) {
        told.push_back(first.error().code);
        endpoint->connect(other.place(), kPatience,
                          [&](const Result<Connection>& second) { told.push_back(second.error().code); });
      });
    };
    connect(us, other);
    us.destroy();
    BOOST_TEST((told == std::vector{Errc::cancelled, Errc::cancelled}));
  }
}

BOOST_AUTO_TEST_CASE(only_who_gives_the_turns_waits_for_a_connection_and_no_upcall_does) {
  Party other({.fabric = "udp"});
  for (const Way way : kWays) {
    Party us({.fabric = "udp"}, way);
    std::optional<Errc> told;
    us.when_disconnected = [&] { told = us->connect(other.place(), kPatience).error().code; };
    connect(us, other, other.connections()).first.disconnect();
    us.wait_for_end();
    BOOST_TEST((told == Errc::invalid_argument));
    if (way == Way::polls || way == Way::upcalls) continue;
    std::thread([&] {
      BOOST_TEST(failed_with(us->connect(other.place(), kPatience), Errc::invalid_argument));
      std::array<Completion, 1> none;
      BOOST_TEST(us->poll(none, kPatience) == 0);
    }).join();
  }
}

BOOST_AUTO_TEST_CASE(the_death_of_a_peer_flushes_what_was_under_way_and_is_told_once) {
  for (const char* const fabric : kFabrics) {
    BOOST_TEST_CONTEXT(fabric) {
      std::array<int, 2> pipe{};
      BOOST_REQUIRE(::pipe(pipe.data()) == 0);
      const pid_t child = ::fork();
      if (child == 0) {
        const auto endpoint = Endpoint::create({.name = "test", .fabric = fabric, .insecure = true});
        const bool listens = endpoint && (*endpoint)->listen();
        const std::uint16_t port = listens ? (*endpoint)->address().port : 0;
        if (::write(pipe[1], &port, sizeof port) == sizeof port) ::pause();
        ::_exit(1);
      }
      std::uint16_t port = 0;
      BOOST_REQUIRE(::read(pipe[0], &port, sizeof port) == sizeof port);
      Party us({.fabric = fabric});
      const auto here = us->connect({.host = "127.0.0.1", .port = port}, kPatience);
      BOOST_REQUIRE(here);
      std::vector<std::byte> room(8);
      BOOST_REQUIRE(here->post_receive(room, 1));
      BOOST_REQUIRE(here->send(room, 2));
      ::kill(child, SIGKILL);
      const auto ended = us.next(2);
      BOOST_TEST((ended[0].status != WorkStatus::success && ended[1].status != WorkStatus::success));
      const Error cause = us.end_of(*here);
      BOOST_TEST((cause.code == Errc::peer_failed));
      BOOST_TEST(!cause.what.empty());
      BOOST_TEST(!us->connect({.host = "127.0.0.1", .port = port}, kPatience));
      BOOST_TEST(us.disconnected() == 1U);
      ::waitpid(child, nullptr, 0);
      ::close(pipe[0]);
      ::close(pipe[1]);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_message_longer_than_its_receive_is_refused_by_name_at_both_sides) {
  for (const char* const fabric : kFabrics) {
    BOOST_TEST_CONTEXT(fabric) {
      Party other({.fabric = fabric}), us({.fabric = fabric});
      const auto [here, there] = connect(us, other);
      std::vector<std::byte> room(8), message(9);
      BOOST_REQUIRE(there.post_receive(room, 1));
      BOOST_REQUIRE(here.send(message, 2));
      BOOST_TEST(is(other.next(), WorkKind::receive, 1, WorkStatus::local_length));
      BOOST_TEST(is(us.next(), WorkKind::send, 2, WorkStatus::remote_invalid_request));
      BOOST_TEST((other.end_of(there).code == Errc::protocol_error));
      BOOST_TEST((us.end_of(here).code == Errc::protocol_error));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_connection_attempt_ends_by_name_and_in_time) {
  Party us({.fabric = "udp"});
  const auto nobody = us->connect({.host = "127.0.0.1", .port = 1}, kPatience);
  BOOST_TEST(failed_with(nobody, Errc::peer_failed));
  // This listener never sends anything.
  const int silent = ::socket(AF_INET, SOCK_STREAM, 0);
  BOOST_REQUIRE(::listen(silent, 1) == 0);
  sockaddr_in bound{};
  socklen_t length = sizeof bound;
  BOOST_REQUIRE(::getsockname(silent, reinterpret_cast<sockaddr*>(&bound), &length) == 0);
  const Endpoint::Target place{.host = "127.0.0.1", .port = ntohs(bound.sin_port)};
  BOOST_TEST(failed_with(us->connect(place, milliseconds(50)), Errc::timed_out));
  // This connection attempt has not finished when the endpoint ends.
  std::promise<Result<Connection>> made;
  us->connect(place, kPatience, [&](Result<Connection> done) { made.set_value(std::move(done)); });
  us.destroy();
  BOOST_TEST(failed_with(made.get_future().get(), Errc::cancelled));
  ::close(silent);
}

BOOST_AUTO_TEST_CASE(a_peer_that_is_wrong_is_refused_by_name_and_counted) {
  Party us({.fabric = "udp"});
  RawPeer peer;
  BOOST_TEST(failed_with(peer.open(us, "unicast/nobody", {greeting(), {}}), Errc::not_found));
  BOOST_TEST(failed_with(peer.open(us, "unicast/test", {bytes_of("\xFF"), {}}), Errc::protocol_error));
  BOOST_TEST(failed_with(peer.open(us, "unicast/test", {bytes_of("\x08\x02"), {}}), Errc::version_mismatch));
  BOOST_TEST(failed_with(
      peer.open(us, "unicast/test", {unicast::encode(unicast::Greeting{std::string(256, 'x'), {}}), {}}),
      Errc::protocol_error));
  BOOST_TEST(us->counters().peers_refused == 3U);
  BOOST_TEST(
      failed_with(peer.open(us, "unicast/test", {greeting(), bytes_of("no blob")}), Errc::protocol_error));
  BOOST_TEST(us->counters().peers_refused == 4U);
  BOOST_TEST(us->counters().connections_accepted == 0U);
}

BOOST_AUTO_TEST_CASE(a_peer_that_breaks_the_protocol_on_its_channel_is_cut_off) {
  Party us({.fabric = "udp"});
  for (const auto& nonsense : {bytes_of("\xFF\xFF"), unicast::encode(unicast::Message(unicast::Ready{}))}) {
    RawPeer peer;
    const std::size_t index = us->counters().connections_accepted;
    BOOST_REQUIRE(peer.open(us, "unicast/test", {greeting(), peer.blob()}));
    peer.say(unicast::encode(unicast::Message(unicast::Ready{})));
    const Connection connection = us.connection(index);
    BOOST_TEST(connection.peer().name == "raw peer");
    peer.say(nonsense);
    BOOST_TEST((us.end_of(connection).code == Errc::protocol_error));
  }
}

BOOST_AUTO_TEST_CASE(an_endpoint_has_as_many_connections_as_it_may) {
  Party other({.fabric = "udp", .most_connections = 1}), us({.fabric = "udp"});
  const auto [here, there] = connect(us, other);
  BOOST_TEST(failed_with(us->connect(other.place(), kPatience), Errc::resource_limit));
  BOOST_TEST(failed_with(other->connect(us.place(), kPatience), Errc::resource_limit));
  here.disconnect();
  other.end_of(there);
  BOOST_TEST(us->connect(other.place(), kPatience).has_value());
}

BOOST_AUTO_TEST_CASE(options_that_make_no_sense_are_refused) {
  const auto refused = [](const EndpointOptions& options) {
    return failed_with(Endpoint::create(options), Errc::invalid_argument);
  };
  BOOST_TEST(refused({.name = "", .insecure = true}));
  BOOST_TEST(refused({.name = std::string(256, 'x'), .insecure = true}));
  BOOST_TEST(refused({.name = "x"}));
  BOOST_TEST(refused({.name = "x", .insecure = true, .encrypt = true}));
  BOOST_TEST(refused({.name = "x", .insecure = true, .send_depth = 0}));
  BOOST_TEST(refused({.name = "x", .insecure = true, .receive_depth = 65'537}));
  BOOST_TEST(refused({.name = "x", .insecure = true, .private_data = std::vector<std::byte>(4097)}));
}

BOOST_AUTO_TEST_CASE(a_peer_that_posts_no_receive_is_given_up_when_the_patience_is_over) {
  for (const char* const fabric : kFabrics) {
    BOOST_TEST_CONTEXT(fabric) {
      const std::vector<std::byte> bytes(8);
      Party other({.fabric = fabric}), us({.fabric = fabric, .receive_patience = milliseconds(20)});
      const auto [here, there] = connect(us, other);
      BOOST_REQUIRE(here.send(bytes, 1));
      BOOST_TEST(is(us.next(), WorkKind::send, 1, WorkStatus::rnr_retry_exceeded));
      BOOST_TEST((us.end_of(here).code == Errc::peer_failed));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_patience_without_end_waits_for_the_receive) {
  for (const Duration patience : {Duration{}, Duration{INT64_MAX}}) {
    for (const char* const fabric : kFabrics) {
      BOOST_TEST_CONTEXT(fabric << ", " << patience.ns) {
        std::vector<std::byte> bytes(8), room(8);
        Party other({.fabric = fabric}), us({.fabric = fabric, .receive_patience = patience});
        const auto [here, there] = connect(us, other);
        BOOST_REQUIRE(here.send(bytes, 1));
        std::array<Completion, 1> none;
        BOOST_TEST(us->poll(none, milliseconds(50)) == 0U);
        BOOST_REQUIRE(there.post_receive(room, 2));
        BOOST_TEST(is(us.next(), WorkKind::send, 1));
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

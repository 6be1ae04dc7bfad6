// Tests how endpoints connect: what each side proves, learns and refuses, and which threads may wait for a
// connection.
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <future>

#include "controlplane/auth/cluster_key.hpp"
#include "tests/controlplane/auth/certificates.hpp"
#include "tests/lib/unicast/endpoints.hpp"

BOOST_AUTO_TEST_SUITE(introduction_test)

using namespace rdmc;
using namespace rdmc::testing;

namespace {

class KeyFile {
 public:
  KeyFile() { BOOST_REQUIRE(control::ClusterKey::generate().value().write(path)); }
  ~KeyFile() { std::filesystem::remove(path); }

 private:
  static std::string fresh_name() {
    static int count = 0;
    return "rdmc-unicast-key-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
  }

 public:
  const std::string path = std::filesystem::temp_directory_path() / fresh_name();
};

Certificates files_in(const control::testing::CertificateFolder& folder) {
  const control::CertificateFiles files = folder.files();
  return {files.certificate, files.private_key, files.authority};
}

/// Checks that a message arrives.
void check_message(Party& from, const Connection& here, Party& to, const Connection& there) {
  const auto message = bytes_of("a message");
  std::vector<std::byte> room(message.size());
  BOOST_REQUIRE(there.post_receive(room, 1));
  BOOST_REQUIRE(here.send(message, 2));
  BOOST_TEST(is(from.next(), WorkKind::send, 2));
  BOOST_TEST(is(to.next(), WorkKind::receive, 1));
  BOOST_TEST((room == message));
}

}  // namespace

BOOST_AUTO_TEST_CASE(who_has_another_key_is_refused_by_name) {
  const KeyFile key, another;
  Party other({.fabric = "udp", .key_file = key.path}), us({.fabric = "udp", .key_file = key.path});
  Party outsider({.fabric = "udp", .key_file = another.path}), open({.fabric = "udp"});
  const auto [here, there] = connect(us, other);
  check_message(us, here, other, there);
  BOOST_TEST(failed_with(outsider->connect(other.place(), kPatience), Errc::authentication));
  BOOST_TEST(!open->connect(other.place(), kPatience));
  BOOST_TEST(other->counters().connections_accepted == 1U);
}

BOOST_AUTO_TEST_CASE(whom_the_authority_has_signed_is_let_in_and_nobody_else) {
  const control::testing::CertificateFolder first, second, third;
  const control::testing::Authority authority("the cluster's"), another("another one");
  authority.issue(first.files());
  authority.issue(second.files());
  another.issue(third.files());
  Party other({.fabric = "udp", .certificates = files_in(first)});
  Party us({.fabric = "udp", .certificates = files_in(second)});
  Party outsider({.fabric = "udp", .certificates = files_in(third)});
  const auto [here, there] = connect(us, other);
  check_message(us, here, other, there);
  BOOST_TEST(failed_with(outsider->connect(other.place(), kPatience), Errc::authentication));
}

BOOST_AUTO_TEST_CASE(who_encrypts_connects_to_those_who_do_and_to_nobody_else) {
  const KeyFile key;
  for (const char* const fabric : {"udp", "auto"}) {
    BOOST_TEST_CONTEXT(fabric) {
      Party other({.fabric = fabric, .key_file = key.path, .encrypt = true});
      Party us({.fabric = fabric, .key_file = key.path, .encrypt = true});
      const auto [here, there] = connect(us, other);
      check_message(us, here, other, there);
      // The endpoint uses this thread, because the context has no other thread.
      const auto thread = us.context->fabric_thread({.fabric = fabric, .encrypt = true});
      BOOST_REQUIRE(thread);
      BOOST_TEST(us.context->threads() == 1U);
      BOOST_TEST((*thread)->call([&] { return (*thread)->fabric().info().encrypted; }));
    }
  }
  Party other({.fabric = "udp", .key_file = key.path, .encrypt = true});
  Party plain({.fabric = "udp", .key_file = key.path});
  BOOST_TEST(failed_with(plain->connect(other.place(), kPatience), Errc::authentication));
  BOOST_TEST(failed_with(other->connect(plain.place(), kPatience), Errc::authentication));
}

// The result is the same with and without a NIC in this machine.
BOOST_AUTO_TEST_CASE(a_nic_encrypts_nothing_and_says_so) {
  const KeyFile key;
  BOOST_TEST(failed_with(
      Endpoint::create({.name = "test", .fabric = "verbs", .key_file = key.path, .encrypt = true}),
      Errc::unsupported));
}

BOOST_AUTO_TEST_CASE(nobody_connects_before_the_endpoint_listens) {
  Party other({.fabric = "udp"}), us({.fabric = "udp"});
  const auto late =
      Endpoint::create({.name = "late", .fabric = "udp", .insecure = true, .context = other.context});
  BOOST_REQUIRE(late);
  auto place = other.place();
  place.name = "late";
  const auto nobody = us->connect(place, kPatience);
  BOOST_TEST_REQUIRE(failed_with(nobody, Errc::not_found));
  BOOST_TEST(
      nobody.error().what.starts_with("endpoint 'late' at 127.0.0.1 port " + std::to_string(place.port)),
      nobody.error().what);
  BOOST_REQUIRE((*late)->listen());
  BOOST_TEST(((*late)->address().port != 0 && (*late)->address().port != place.port));
  BOOST_TEST(us->connect(place, kPatience).has_value());
  BOOST_TEST(failed_with((*late)->listen(), Errc::invalid_argument));
  const auto second =
      Endpoint::create({.name = "late", .fabric = "udp", .insecure = true, .context = other.context});
  BOOST_REQUIRE(second);
  BOOST_TEST(failed_with((*second)->listen(), Errc::already_exists));
}

BOOST_AUTO_TEST_CASE(an_upcall_cannot_listen) {
  for (const Way way : kWays) {
    Party other({.fabric = "udp"}), us({.fabric = "udp"}, way);
    std::optional<Errc> told;
    us.when_disconnected = [&] { told = us->listen().error().code; };
    connect(us, other).first.disconnect();
    us.wait_for_end();
    BOOST_TEST((told == Errc::invalid_argument));
  }
}

BOOST_AUTO_TEST_CASE(private_data_may_be_of_one_connection) {
  Party other({.fabric = "udp"}), us({.fabric = "udp", .private_data = bytes_of("everybody")});
  auto place = other.place();
  place.private_data = bytes_of("you");
  BOOST_REQUIRE(us->connect(place, kPatience));
  BOOST_TEST((other.connection(0).peer().private_data == bytes_of("you")));
  BOOST_REQUIRE(us->connect(other.place(), kPatience));
  BOOST_TEST((other.connection(1).peer().private_data == bytes_of("everybody")));
  place.private_data.resize(4097);
  BOOST_TEST(failed_with(us->connect(place, kPatience), Errc::invalid_argument));
}

BOOST_AUTO_TEST_CASE(a_peer_may_be_refused_before_it_is_connected) {
  for (const Way way : {Way::upcalls, Way::drives_with_upcalls}) {
    Party us({.fabric = "udp"}), other({.fabric = "udp"}, way);
    other.when_asked = [](const PeerInfo& peer) -> Result<void> {
      if (peer.name == "test" && peer.private_data == bytes_of("let me in")) return {};
      return fail(Errc::permission_denied, "not you");
    };
    const auto try_with = [&](const char* said) {
      auto place = other.place();
      place.private_data = bytes_of(said);
      std::promise<Result<Connection>> promise;
      auto made = promise.get_future();
      us->connect(place, kPatience, [&](Result<Connection> done) { promise.set_value(std::move(done)); });
      std::array<Completion, 1> none;
      while (made.wait_for(std::chrono::milliseconds(0)) != std::future_status::ready)
        other->poll(none, milliseconds(1));
      return made.get();
    };
    BOOST_TEST(failed_with(try_with("please"), Errc::permission_denied));
    BOOST_TEST(other->counters().peers_refused == 1U);
    BOOST_TEST(try_with("let me in").has_value());
    BOOST_TEST((other.connection(0).peer().private_data == bytes_of("let me in")));
    BOOST_TEST(other.disconnected() == 0U);
  }
}

BOOST_AUTO_TEST_CASE(a_connection_without_anybody_who_waits_for_it_is_told_as_others_are) {
  Party other({.fabric = "udp"}), us({.fabric = "udp"});
  us->connect(other.place(), kPatience, nullptr);
  BOOST_TEST(us.connection(0).is_open());
  us->connect({.host = "127.0.0.1", .port = other.place().port, .name = "nobody"}, kPatience, nullptr);
  BOOST_TEST(us->connect(other.place(), kPatience).has_value());
}

BOOST_AUTO_TEST_CASE(times_without_end_are_no_mistake) {
  Party other({.fabric = "udp"}), us({.fabric = "udp"});
  BOOST_TEST(us->connect(other.place(), Duration{INT64_MAX}).has_value());
  BOOST_TEST(failed_with(us->connect(other.place(), Duration{INT64_MIN}), Errc::timed_out));
}

BOOST_AUTO_TEST_CASE(no_upcall_of_a_membership_waits_for_a_connection) {
  Party other({.fabric = "udp"});
  for (const Way way : kWays) {
    Party us({.fabric = "udp"}, way);
    // Upcalls of memberships run on the thread of this loop.
    const auto loop = us.context->loop().value();
    loop->call([&] {
      BOOST_TEST(failed_with(us->connect(other.place(), kPatience), Errc::invalid_argument));
      if (way == Way::drives_and_polls || way == Way::drives_with_upcalls) return;
      std::vector<std::byte> memory(8);
      auto region = us->register_memory(memory, RemoteAccess::write);
      BOOST_TEST(region.has_value());
    });
  }
}

BOOST_AUTO_TEST_CASE(whoever_waits_for_a_connection_does_not_wait_for_a_control_loop_that_is_held_up) {
  Party other({.fabric = "udp"}), us({.fabric = "udp"});
  const auto loop = us.context->loop().value();
  std::promise<void> goes_on;
  loop->post([held_up = goes_on.get_future()] { held_up.wait(); });
  BOOST_TEST(failed_with(us->connect(other.place(), milliseconds(1)), Errc::timed_out));
  goes_on.set_value();
}

BOOST_AUTO_TEST_SUITE_END()

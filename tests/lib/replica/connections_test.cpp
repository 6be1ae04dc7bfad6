// Two processes of a run that connect, each with its own Context, engine and links, in this process. The
// test's thread runs both engines in turns.
#include "lib/replica/connections.hpp"

#include <boost/test/unit_test.hpp>
#include <vector>

#include "controlplane/auth/cluster_key.hpp"
#include "controlplane/peer/context.hpp"
#include "dataplane/base/clock.hpp"
#include "lib/replica/messenger.hpp"

BOOST_AUTO_TEST_SUITE(connections_test)

using namespace rdmc;
using namespace rdmc::replica;

namespace {

constexpr std::uint32_t kProcesses = 2;
constexpr ContextId kWorld{1};
/// Only a failing test waits so long.
constexpr Duration kPatience = seconds(100);

class Process {
 public:
  /// By default, each process is a rank.
  Process(const control::ClusterKey& key, std::uint32_t number,
          const Layout& layout = *Layout::uniform(kProcesses, 1))
      : own_{number} {
    const auto loop = context_.loop();
    BOOST_REQUIRE(loop.has_value());
    loop_ = *loop;
    auto security = control::TlsContext::create(key);
    BOOST_REQUIRE(security.has_value());
    auto peers = peer::Peers::create(**loop, {.security = *security});
    BOOST_REQUIRE(peers.has_value());
    peers_ = *peers;
    const Address local = Address::ipv4(127, 0, 0, 1, 0);
    auto driver = Driver::open({.fabric = "udp", .address = local});
    BOOST_REQUIRE_MESSAGE(driver.has_value(), driver.error().what);
    driver_ = std::move(*driver);
    {
      const Driver::Call call(driver_.get());
      links_ = std::make_unique<Links>(
          driver_->thread(), own_, layout.processes(),
          [this](ProcessId to, Links::Incarnation incarnation, fabric::ConnectionBlob blob) {
            connections_->dial(to, incarnation, std::move(blob));
          });
      messenger_.emplace(*links_, *make_protocol("sdr", layout, layout.replica(own_)));
      links_->serve(*messenger_);
      std::vector<Rank> ranks;
      for (std::uint32_t rank = 0; rank < layout.ranks(); ++rank) ranks.push_back(Rank{rank});
      messenger_->add_context(kWorld, ranks, value_of(layout.rank(own_)));
    }
    connections_ = std::make_shared<Connections>(*driver_, *links_, *peers_, Connections::Identity{own_},
                                                 layout.processes());
    const auto address = connections_->listen(local);
    BOOST_REQUIRE(address.has_value());
    address_ = *address;
  }
  ~Process() {
    connections_->close();
    const Driver::Call call(driver_.get());
    links_->close({Errc::cancelled, "the test has ended"});
    links_.reset();
  }

  const Address& address() const { return address_; }
  Connections& connections() { return *connections_; }
  /// Calls `function` with the Messenger, on the thread of the engine.
  template <typename Function>
  auto with_messenger(Function function) {
    const Driver::Call call(driver_.get());
    return function(*messenger_);
  }
  void turn() {
    Driver::Call call(driver_.get());
    call.turn(milliseconds(1));
  }
  /// The longest time for which this process may sleep.
  Duration longest_sleep() {
    const Driver::Call call(driver_.get());
    return links_->next_deadline() - monotonic_now();
  }
  /// Returns when the control loop has done what was posted to it.
  void wait_for_loop() {
    peers_->loop().call([] {});
  }

 private:
  const ProcessId own_;
  peer::Context context_;
  std::shared_ptr<control::ControlLoop> loop_;
  std::shared_ptr<peer::Peers> peers_;
  std::unique_ptr<Driver> driver_;
  std::unique_ptr<Links> links_;
  std::optional<Messenger> messenger_;
  std::shared_ptr<Connections> connections_;
  Address address_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_dial_before_the_addresses_are_known_waits_for_them) {
  const auto key = *control::ClusterKey::generate();
  Process sender(key, 0), receiver(key, 1);
  const std::vector<std::byte> bytes(100, std::byte{7});
  std::vector<std::byte> into(bytes.size());
  const auto send = sender.with_messenger([&](Messenger& own) { return own.send(kWorld, bytes, 1, 0); });
  const auto receive =
      receiver.with_messenger([&](Messenger& own) { return own.receive(kWorld, into, 0, 0); });
  sender.wait_for_loop();
  sender.turn();
  for (Process* process : {&sender, &receiver})
    process->connections().set_addresses({sender.address(), receiver.address()});
  const Time latest = monotonic_now() + kPatience;
  const auto is_complete = [](Process& process, RequestId request) {
    return process.with_messenger([&](Messenger& own) { return own.is_complete(request); });
  };
  while (!(is_complete(sender, send) && is_complete(receiver, receive)) && monotonic_now() < latest) {
    sender.turn();
    receiver.turn();
  }
  BOOST_TEST(is_complete(receiver, receive));
  const auto result = sender.with_messenger([&](Messenger& own) { return own.take(send); });
  BOOST_TEST(result.has_value(), (result ? "" : result.error().what));
  BOOST_TEST((into == bytes));
}

BOOST_AUTO_TEST_CASE(a_process_that_sleeps_wakes_to_chase_its_hold) {
  // Rank 1 sends to both replicas of rank 0. The second one does not exist, so it never sees the message.
  const auto key = *control::ClusterKey::generate();
  const Layout layout = *Layout::of({2, 1});
  Process receiver(key, 0, layout), sender(key, 2, layout);
  for (Process* process : {&sender, &receiver})
    process->connections().set_addresses(
        {receiver.address(), Address::ipv4(127, 0, 0, 1, 1), sender.address()});
  BOOST_TEST((receiver.longest_sleep() > Links::kChasePeriod));
  const std::byte sent{7};
  std::byte received{};
  sender.with_messenger([&](Messenger& own) { own.send(kWorld, std::span(&sent, 1), 0, 0); });
  const auto receive = receiver.with_messenger(
      [&](Messenger& own) { return own.receive(kWorld, std::span(&received, 1), Messenger::kAny, 0); });
  const auto is_complete = [&] {
    return receiver.with_messenger([&](Messenger& own) { return own.is_complete(receive); });
  };
  for (const Time latest = monotonic_now() + kPatience; !is_complete() && monotonic_now() < latest;) {
    sender.turn();
    receiver.turn();
  }
  receiver.with_messenger([&](Messenger& own) {
    BOOST_TEST_REQUIRE(own.take(receive).has_value());
    BOOST_TEST_REQUIRE(own.oldest_hold().has_value());
  });
  receiver.turn();
  BOOST_TEST((receiver.longest_sleep() <= Links::kChasePeriod));
}

BOOST_AUTO_TEST_SUITE_END()

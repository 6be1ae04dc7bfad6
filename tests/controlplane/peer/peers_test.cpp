// Tests with two or more processes over real sockets on loopback. Each Host object acts as a separate
// process.
#include "controlplane/peer/peers.hpp"

#include <boost/test/unit_test.hpp>
#include <future>

#include "controlplane/auth/cluster_key.hpp"
#include "controlplane/auth/tls.hpp"
#include "controlplane/peer/context.hpp"
#include "controlplane/peer/same_process.hpp"
#include "controlplane/peer/sub_channel.hpp"
#include "tests/dataplane/port/most_descriptors.hpp"

BOOST_AUTO_TEST_SUITE(peers_test)

using namespace rdmc;
using namespace rdmc::peer;

namespace {

const Address kAny = Address::ipv4(127, 0, 0, 1, 0);

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// Acts as a separate process. Its service sends every message back.
struct Host {
  Host() {
    service = *peers->serve("echo", [this](Request request) {
      Offer answer{request.offer().blob, request.offer().greeting};
      auto channel = request.accept(std::move(answer));
      BOOST_REQUIRE(channel);
      const auto kept = std::make_shared<control::Channel>(std::move(*channel));
      channels.push_back(kept);
      kept->start([raw = kept.get()](Bytes message) { BOOST_REQUIRE(raw->send(std::move(message))); },
                  [this, raw = kept.get()](const Error& cause) {
                    ended.push_back(cause.code);
                    std::erase_if(channels, [raw](const auto& one) { return one.get() == raw; });
                  });
    });
    listener.emplace(*peers->listen(kAny, {.channel = peers->options()}));
  }
  ~Host() {
    service = {};
    peers->loop().call([this] { channels.clear(); });
  }
  Result<Peer> dial(const Address& to) {
    std::promise<Result<Peer>> found;
    const auto dialing = peers->dial(host_string(to), to.port, seconds(60),
                                     [&](Result<Peer> peer) { found.set_value(std::move(peer)); });
    return found.get_future().get();
  }
  /// Opens a channel to the service at `to`, and returns the channel. Repeats this until it succeeds.
  std::shared_ptr<control::Channel> use(const Address& to) {
    for (;;) {
      std::promise<Result<control::Channel>> opened;
      const auto opening = peers->open(
          host_string(to), to.port, seconds(60), "echo", {},
          [&](Result<control::Channel> made, const Offer&) { opened.set_value(std::move(made)); });
      // On a busy machine, the connection may be idle for too long and end before the channel is opened.
      if (auto made = opened.get_future().get()) return std::make_shared<control::Channel>(std::move(*made));
    }
  }
  void let_go(std::shared_ptr<control::Channel> channel) {
    peers->loop().call([&] { channel.reset(); });
  }
  /// Opens a channel to the service `name`, sends `word` on it, and returns the answer.
  Result<Bytes> ask(Peer peer, const std::string& name, std::string_view word) {
    std::promise<Result<Bytes>> answer;
    std::optional<control::Channel> used;
    peers->loop().call([&] {
      peer.open(name, {bytes_of("greeting"), bytes_of("blob")},
                [&](Result<control::Channel> channel, const Offer& offer) {
                  if (!channel) return answer.set_value(std::unexpected(channel.error()));
                  BOOST_TEST((offer == Offer{bytes_of("blob"), bytes_of("greeting")}));
                  used.emplace(std::move(*channel));
                  BOOST_TEST(used->round_trip().has_value());
                  used->start([&](Bytes message) { answer.set_value(std::move(message)); },
                              [](const Error&) {});
                  BOOST_REQUIRE(used->send(bytes_of(word)));
                });
    });
    auto got = answer.get_future().get();
    peers->loop().call([&] { used.reset(); });
    return got;
  }

  std::shared_ptr<Context> context = std::make_shared<Context>();
  std::shared_ptr<Peers> peers = *context->peers({.key_file = {}, .certificates = {}, .insecure = true});
  // This member and the next one must be used on the loop's thread.
  std::vector<std::shared_ptr<control::Channel>> channels;
  std::vector<Errc> ended;
  Peers::Handle service;
  std::optional<control::Listener> listener;
};

template <typename Condition>
void wait_for(Condition condition) {
  // If this takes too long, the time limit of the test ends it.
  while (!condition()) std::this_thread::yield();
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_service_is_found_and_answers_on_a_channel_of_its_own) {
  Host one, other;
  const auto peer = one.dial(other.listener->address()).value();
  BOOST_TEST((peer.identity() == other.peers->identity()));
  BOOST_TEST((peer.identity().process == identity_of_self() || peer.identity().process.pid != 0));
  BOOST_TEST((one.ask(peer, "echo", "first").value() == bytes_of("first")));
  BOOST_TEST((one.ask(peer, "echo", "second").value() == bytes_of("second")));
  BOOST_TEST((one.ask(peer, "nothing", "x").error().code == Errc::not_found));
}

BOOST_AUTO_TEST_CASE(two_processes_share_one_connection_whoever_dials_whom_at_which_address) {
  Host one, other;
  const auto second_door = *other.peers->listen(kAny, {.channel = other.peers->options()});
  const auto first = one.dial(other.listener->address()).value();
  BOOST_TEST(!first.was_connected());
  for (const Address& to : {other.listener->address(), second_door.address()}) {
    const auto again = one.dial(to).value();
    BOOST_TEST(again.was_connected());
    BOOST_TEST(again.number() == first.number());
  }
  const auto back = other.dial(one.listener->address()).value();
  BOOST_TEST(back.was_connected());
  BOOST_TEST((other.ask(back, "echo", "from the other side").value() == bytes_of("from the other side")));
  wait_for([&] { return one.peers->connections() == 1 && other.peers->connections() == 1; });
}

BOOST_AUTO_TEST_CASE(who_only_says_that_it_is_a_process_that_we_know_does_not_get_its_channels) {
  Host one, other, impostor;
  const auto known = one.dial(other.listener->address()).value();
  // The liar completes the handshake and follows the protocol, but it uses the identity of another process.
  // It is a listener whose answers are written in this test.
  auto loop = control::ControlLoop::create().value();
  std::optional<control::Channel> taken;
  const Hello lie{.identity = other.peers->identity(), .proofs = {Proof{}}};
  int asked = 0;
  const auto liar = *control::Listener::listen(
      *loop, kAny, {.channel = {.security = control::Insecure{}}},
      {.on_channel =
           [&](control::Channel channel) {
             taken.emplace(std::move(channel));
             taken->start(
                 [&](const Bytes& said) {
                   const bool is_hello = std::holds_alternative<Hello>(decode(said).value());
                   const Choice choice{++asked < 3 ? std::optional(Proof{}) : std::nullopt};
                   static_cast<void>(taken->send(is_hello ? encode(lie) : encode(choice)));
                 },
                 [](const Error&) {});
           },
       .on_refused = {}});
  const auto deceived = one.dial(liar.address()).value();
  BOOST_TEST(!deceived.was_connected());
  BOOST_TEST(one.peers->connections() == 2U);
  loop->call([&] { taken.reset(); });
}

BOOST_AUTO_TEST_CASE(what_a_process_proves_as_a_listener_is_no_proof_of_another) {
  Host one, other;
  const auto known = one.dial(other.listener->address()).value();
  // The liar gets a Hello from the process that dials it. It sends this Hello back to the same process, in
  // the name of another process. Then it forwards the answer as its own answer.
  auto loop = control::ControlLoop::create().value();
  std::optional<control::Channel> taken, mirror;
  control::Connecting dialing;
  const auto liar = *control::Listener::listen(
      *loop, kAny, {.channel = {.security = control::Insecure{}}},
      {.on_channel =
           [&](control::Channel channel) {
             taken.emplace(std::move(channel));
             taken->start(
                 [&](const Bytes& said) {
                   const Message asked = decode(said).value();
                   if (std::holds_alternative<Known>(asked)) {
                     static_cast<void>(taken->send(encode(Choice{})));
                     return;
                   }
                   Hello question = std::get<Hello>(asked);
                   question.identity = other.peers->identity();
                   dialing = control::connect(
                       *loop, "127.0.0.1", one.listener->address().port, {.security = control::Insecure{}},
                       seconds(60), [&, question](Result<control::Channel> made) {
                         mirror.emplace(std::move(made.value()));
                         mirror->start(
                             [&](const Bytes& answered) {
                               Hello answer = std::get<Hello>(decode(answered).value());
                               BOOST_TEST(answer.proofs.size() == 1U);
                               answer.identity = other.peers->identity();
                               static_cast<void>(taken->send(encode(answer)));
                             },
                             [](const Error&) {});
                         static_cast<void>(mirror->send(encode(question)));
                       });
                 },
                 [](const Error&) {});
           },
       .on_refused = {}});
  BOOST_TEST(!one.dial(liar.address()).value().was_connected());
  loop->call([&] {
    dialing = {};
    taken.reset();
    mirror.reset();
  });
}

namespace {

/// A process whose messages are written in the test. It dials `to`, and the process at `to` dials it.
class ByHand {
 public:
  explicit ByHand(std::byte first_of_incarnation) {
    identity.incarnation.fill(first_of_incarnation);
    listener.emplace(*control::Listener::listen(
        *loop_, kAny, {.channel = {.security = control::Insecure{}}},
        {.on_channel =
             [this](control::Channel channel) {
               dialed_.emplace(std::move(channel));
               dialed_->start([this](const Bytes& said) { asked.set_value(hello_in(said)); },
                              [this](const Error&) { dialed_ended.set_value(); });
             },
         .on_refused = {}}));
  }
  ~ByHand() {
    loop_->call([&] {
      dialing_ = {};
      dialed_.reset();
      ours_.reset();
    });
  }
  /// Dials `to` and sends `hello`. Returns the answer. The caller may call ask() after this.
  Hello dial(const Address& to, const Hello& hello) {
    std::promise<Hello> answer;
    loop_->call([&] {
      dialing_ = control::connect(*loop_, "127.0.0.1", to.port, {.security = control::Insecure{}},
                                  seconds(60), [&](Result<control::Channel> made) {
                                    ours_.emplace(std::move(made.value()));
                                    ours_->start(
                                        [&](const Bytes& said) {
                                          Message heard = decode(said).value();
                                          if (const auto* const choice = std::get_if<Choice>(&heard))
                                            return chosen.set_value(*choice);
                                          answer.set_value(std::get<Hello>(std::move(heard)));
                                        },
                                        [](const Error&) {});
                                    BOOST_REQUIRE(ours_->send(encode(hello)));
                                  });
    });
    return answer.get_future().get();
  }
  void answer(const Hello& hello) {
    loop_->call([&] { BOOST_REQUIRE(dialed_->send(encode(hello))); });
  }
  Choice ask(const Known& known) {
    loop_->call([&] { BOOST_REQUIRE(ours_->send(encode(known))); });
    return chosen.get_future().get();
  }
  void close_ours() {
    loop_->call([&] { ours_->close(); });
  }

  Identity identity;
  std::optional<control::Listener> listener;
  std::promise<Hello> asked;
  std::promise<Choice> chosen;
  std::promise<void> dialed_ended;

 private:
  static Hello hello_in(const Bytes& said) { return std::get<Hello>(decode(said).value()); }

  std::unique_ptr<control::ControlLoop> loop_ = control::ControlLoop::create().value();
  std::optional<control::Channel> dialed_, ours_;
  control::Connecting dialing_;
};

/// Makes two connections cross: `one` dials `other`, and `other` dials `one` before it answers. Calls `knows`
/// with the Hello of `one`, the Hello of `other`, and the answer of `one`.
Peer cross(Host& one, ByHand& other,
           const std::function<void(const Hello&, const Hello&, const Hello&)>& knows) {
  std::promise<Result<Peer>> found;
  const auto dialing = one.peers->dial("127.0.0.1", other.listener->address().port, seconds(60),
                                       [&](Result<Peer> peer) { found.set_value(std::move(peer)); });
  const Hello question = other.asked.get_future().get();
  Hello hello{.identity = other.identity, .proofs = {}};
  hello.nonce.fill(std::byte{1});
  hello.secret.fill(std::byte{2});
  const Hello answer = other.dial(one.listener->address(), hello);
  BOOST_TEST(answer.proofs.empty());  // `one` does not know yet which process it has dialed.
  const Proof ours = proof_of(hello.secret, one.peers->identity(), other.identity, question.nonce);
  other.answer({.identity = other.identity, .nonce = {}, .secret = {}, .proofs = {ours}});
  knows(question, hello, answer);
  return found.get_future().get().value();
}

}  // namespace

BOOST_AUTO_TEST_CASE(of_two_connections_that_cross_the_one_stays_that_the_smaller_incarnation_decides_for) {
  {
    Host one;
    ByHand smaller(std::byte{0});
    const Peer peer = cross(one, smaller, [](const auto&...) {});
    BOOST_TEST(peer.was_connected());
    BOOST_TEST(!peer.was_dialed_by_us());
    smaller.dialed_ended.get_future().get();
    wait_for([&] { return one.peers->connections() == 1; });
    BOOST_TEST(one.peers->counters().shared == 1U);
  }
  {
    Host one;
    ByHand larger(std::byte{255});
    const Peer peer = cross(one, larger, [&](const Hello& question, const Hello& hello, const Hello& answer) {
      const Identity& identity = one.peers->identity();
      const Known known{{proof_of(question.secret, identity, larger.identity, answer.nonce)}};
      const Proof choice = proof_of(question.secret, larger.identity, identity, hello.nonce);
      BOOST_TEST((larger.ask(known) == Choice{choice}));
    });
    BOOST_TEST(!peer.was_connected());
    BOOST_TEST(peer.was_dialed_by_us());
    larger.close_ours();
    wait_for([&] { return one.peers->connections() == 1; });
  }
}

BOOST_AUTO_TEST_CASE(processes_that_dial_each_other_again_and_again_at_once_end_with_one_connection) {
  for (int round = 0; round < 5; ++round) {
    Host one, other;
    std::vector<std::future<Result<Peer>>> from_one, from_other;
    for (int i = 0; i < 4; ++i) {
      from_one.push_back(std::async(std::launch::async, [&] { return one.dial(other.listener->address()); }));
      from_other.push_back(
          std::async(std::launch::async, [&] { return other.dial(one.listener->address()); }));
    }
    for (auto* const all : {&from_one, &from_other})
      for (auto& found : *all) BOOST_TEST(found.get().has_value());
    // Both processes must now use one existing connection.
    const auto at_one = one.use(other.listener->address()), at_other = other.use(one.listener->address());
    wait_for([&] { return one.peers->connections() == 1 && other.peers->connections() == 1; });
    one.let_go(at_one);
    other.let_go(at_other);
  }
}

BOOST_AUTO_TEST_CASE(a_process_that_dials_itself_gets_a_connection) {
  Host one;
  for (int i = 0; i < 2; ++i)
    BOOST_TEST((one.ask(one.dial(one.listener->address()).value(), "echo", "x").value() == bytes_of("x")));
}

BOOST_AUTO_TEST_CASE(the_death_of_a_process_is_heard_on_every_channel_to_it) {
  Host one;
  std::promise<Errc> first, second;
  std::vector<control::Channel> kept;
  {
    Host other;
    auto peer = one.dial(other.listener->address()).value();
    std::promise<void> both;
    one.peers->loop().call([&] {
      for (auto* const told : {&first, &second})
        peer.open("echo", {}, [&kept, &both, told](Result<control::Channel> channel, const Offer&) {
          BOOST_REQUIRE(channel);
          kept.push_back(std::move(*channel));
          kept.back().start([](const Bytes&) {}, [told](const Error& cause) { told->set_value(cause.code); });
          if (kept.size() == 2) both.set_value();
        });
    });
    both.get_future().get();
  }
  for (auto* const told : {&first, &second}) {
    const Errc code = told->get_future().get();
    BOOST_TEST((code == Errc::cancelled || code == Errc::peer_failed));
  }
  one.peers->loop().call([&] { kept.clear(); });
}

BOOST_AUTO_TEST_CASE(a_channel_that_is_let_go_of_tells_the_other_side_that_nobody_is_there) {
  Host one, other;
  const auto peer = one.dial(other.listener->address()).value();
  BOOST_REQUIRE(one.ask(peer, "echo", "x"));  // ask() releases its channel when it returns.
  wait_for([&] { return other.peers->loop().call([&] { return other.ended.size(); }) == 1; });
  BOOST_TEST((other.ended[0] == Errc::peer_failed));
}

BOOST_AUTO_TEST_CASE(who_does_not_say_who_it_is_or_breaks_the_protocol_costs_its_own_connection) {
  Host one, other;
  const auto peer = one.dial(other.listener->address()).value();
  auto loop = control::ControlLoop::create().value();
  std::promise<void> ended;
  std::optional<control::Channel> rude;
  const auto dialing =
      control::connect(*loop, "127.0.0.1", other.listener->address().port, {.security = control::Insecure{}},
                       seconds(60), [&](Result<control::Channel> channel) {
                         rude.emplace(std::move(channel.value()));
                         rude->start([](const Bytes&) {}, [&](const Error&) { ended.set_value(); });
                         static_cast<void>(rude->send(bytes_of("nonsense")));
                       });
  ended.get_future().get();
  BOOST_TEST((one.ask(peer, "echo", "still here").value() == bytes_of("still here")));
  BOOST_TEST(other.peers->counters().refused == 1U);
  loop->call([&] { rude.reset(); });
}

BOOST_AUTO_TEST_CASE(whatever_breaks_a_bound_is_refused_by_name_and_counted) {
  const auto with = [](auto change) {
    Hello hello;
    change(hello);
    return encode(hello);
  };
  const Bytes most(kMostOfferBytes), too_many(kMostOfferBytes + 1);
  const Bytes hello = encode(Hello{.proofs = {}});
  const auto open = [](std::string service, Offer offer) {
    return encode(Open{ChannelId{1}, std::move(service), std::move(offer)});
  };
  const auto fits = open(std::string(kMostServiceBytes, 's'), {most, most});
  Bytes of_no_kind(2), cut = hello, long_first = hello;
  cut.resize(cut.size() - 1);
  long_first.resize(Conversation::kMostHelloBytes + 1);
  struct Case {
    std::vector<Bytes> said;
    std::string name;
  };
  const Case cases[] = {
      {{long_first}, "sent more than a Hello at first"},
      {{cut}, "sent a malformed control message"},
      {{with([](Hello& one) { one.proofs.resize(kMostProofs + 1); })}, "sent too many proofs"},
      {{hello, encode(Known{std::vector<Proof>(kMostProofs + 1)})}, "sent too many proofs"},
      {{encode(Known{})}, "sent a Known that is not its to say"},
      {{hello, encode(Choice{})}, "sent a Choice that nobody waits for"},
      {{hello, hello}, "sent a second Hello"},
      {{fits}, "sent more than a Hello at first"},
      {{open("s", {})}, "sent an Open before both sides said Hello"},
      {{hello, open(std::string(kMostServiceBytes + 1, 's'), {})}, "sent an Open that is too long"},
      {{hello, open("s", {too_many, {}})}, "sent an Open that is too long"},
      {{hello, open("s", {{}, too_many})}, "sent an Open that is too long"},
      {{hello, fits, open("s", {})}, "sent an Open of a channel that is not its to open"},
      {{hello, encode(Accept{ChannelId{2}, {too_many, {}}})}, "sent an Accept that is too long"},
      {{hello, encode(Accept{ChannelId{2}, {{}, too_many}})}, "sent an Accept that is too long"},
      {{hello, encode(Accept{ChannelId{2}, {}})}, "sent an Accept that nobody waits for"},
      {{hello, encode(Data{ChannelId{1}, {}})}, "sent data on a channel that is not open"},
      {{hello, encode(Close{ChannelId{1}})}, "sent a Close of a channel that is not open"},
      {{hello, encode(Reset{ChannelId{1}, Errc::cancelled, {}})}, "sent a Reset of a channel that never was"},
      {{hello, of_no_kind}, "sent a malformed control message"},
      {{hello, {}}, "sent a control message of an unknown kind"},
  };
  Host host;
  const auto loop = control::ControlLoop::create().value();
  std::uint64_t refused = 0;
  for (const Case& one : cases) {
    BOOST_TEST_CONTEXT(one.name) {
      Conversation side(false);
      Result<void> heard;
      for (const Bytes& said : one.said) {
        BOOST_TEST(heard.has_value());
        heard = side.on_message(said);
        if (side.poll_event() && !side.is_open()) side.introduce({});
      }
      BOOST_TEST_REQUIRE(!heard.has_value());
      BOOST_TEST((heard.error().code == Errc::protocol_error));
      BOOST_TEST(heard.error().what == one.name);

      std::promise<void> ended;
      std::optional<control::Channel> channel;
      const auto dialing = control::connect(
          *loop, "127.0.0.1", host.listener->address().port, {.security = control::Insecure{}}, seconds(60),
          [&](Result<control::Channel> made) {
            channel.emplace(std::move(made.value()));
            channel->start([](const Bytes&) {}, [&](const Error&) { ended.set_value(); });
            for (const Bytes& said : one.said) static_cast<void>(channel->send(said));
          });
      ended.get_future().get();
      BOOST_TEST(host.peers->counters().refused == ++refused);
      loop->call([&] { channel.reset(); });
    }
  }
  BOOST_TEST(host.peers->connections() == 0U);
}

BOOST_AUTO_TEST_CASE(too_much_on_a_channel_that_is_not_used_ends_that_channel_alone) {
  Host one, other;
  std::promise<std::shared_ptr<control::Channel>> accepted;
  const auto lazy = *other.peers->serve("lazy", [&](Request request) {
    accepted.set_value(std::make_shared<control::Channel>(request.accept({}).value()));
  });
  auto peer = one.dial(other.listener->address()).value();
  std::promise<void> ended;
  std::optional<control::Channel> used;
  one.peers->loop().call([&] {
    peer.open("lazy", {}, [&](Result<control::Channel> channel, const Offer&) {
      used.emplace(std::move(channel.value()));
      used->start([](const Bytes&) {}, [&](const Error&) { ended.set_value(); });
      for (int i = 0; i < 3; ++i) BOOST_REQUIRE(used->send(Bytes(SubChannel::kMostWaitingBytes / 2)));
    });
  });
  ended.get_future().get();
  BOOST_TEST(other.peers->counters().channels_refused == 1U);
  auto channel = accepted.get_future().get();
  std::promise<Errc> why;
  other.peers->loop().call(
      [&] { channel->start([](const Bytes&) {}, [&](const Error& cause) { why.set_value(cause.code); }); });
  BOOST_TEST((why.get_future().get() == Errc::resource_limit));
  BOOST_TEST((one.ask(peer, "echo", "still here").value() == bytes_of("still here")));
  other.peers->loop().call([&] { channel.reset(); });
  one.peers->loop().call([&] { used.reset(); });
}

BOOST_AUTO_TEST_CASE(who_fails_the_handshake_is_told_to_the_listener_or_to_nobody) {
  Host told_nobody;
  std::promise<Errc> why;
  const auto watched =
      *told_nobody.peers->listen(kAny, {.channel = told_nobody.peers->options()},
                                 [&](const Address&, const Error& cause) { why.set_value(cause.code); });
  auto loop = control::ControlLoop::create().value();
  const control::ChannelOptions keyed{
      .security = control::TlsContext::create(control::ClusterKey::generate().value()).value()};
  for (const Address& to : {told_nobody.listener->address(), watched.address()}) {
    std::promise<bool> connected;
    const auto dialing = control::connect(
        *loop, "127.0.0.1", to.port, keyed, seconds(60),
        [&](const Result<control::Channel>& made) { connected.set_value(made.has_value()); });
    BOOST_TEST(!connected.get_future().get());
  }
  BOOST_TEST((why.get_future().get() == Errc::authentication));
  Host one;
  BOOST_TEST(one.dial(told_nobody.listener->address()).has_value());
}

BOOST_AUTO_TEST_CASE(with_a_key_a_connection_has_the_secret_of_its_tls_session_or_ends) {
  auto loop = control::ControlLoop::create().value();
  const control::ChannelOptions keyed{
      .security = control::TlsContext::create(control::ClusterKey::generate().value()).value()};
  const auto peers = Peers::create(*loop, keyed).value();
  const auto listener = peers->listen(kAny, {.channel = keyed}).value();
  for (const bool is_honest : {true, false}) {
    std::optional<control::Channel> ours;
    std::promise<std::optional<Bytes>> answer;
    control::Connecting dialing;
    loop->call([&] {
      dialing = control::connect(
          *loop, "127.0.0.1", listener.address().port, keyed, seconds(60),
          [&](Result<control::Channel> made) {
            ours.emplace(std::move(made.value()));
            ours->start([&](const Bytes& said) { answer.set_value(said); },
                        [&](const Error&) {
                          if (!is_honest) answer.set_value(std::nullopt);
                        });
            Hello hello{.identity = {}, .nonce = {}, .secret = ours->binding().value(), .proofs = {}};
            hello.identity.incarnation.fill(std::byte{1});
            if (!is_honest) hello.secret[15] ^= std::byte{1};
            BOOST_REQUIRE(ours->send(encode(hello)));
          });
    });
    BOOST_TEST(answer.get_future().get().has_value() == is_honest);
    loop->call([&] {
      dialing = {};
      ours.reset();
    });
  }
  BOOST_TEST(peers->counters().refused == 1U);
}

BOOST_AUTO_TEST_CASE(one_unused_connection_too_many_takes_the_place_of_the_oldest_and_used_ones_stay) {
  const port::test::MostDescriptors many(4096);
  Host one, other;
  auto peer = one.dial(other.listener->address()).value();
  std::optional<control::Channel> used;
  std::promise<void> opened;
  one.peers->loop().call([&] {
    peer.open("echo", {}, [&](Result<control::Channel> channel, const Offer&) {
      used.emplace(std::move(channel.value()));
      used->start([](const Bytes&) {}, [](const Error&) {});
      opened.set_value();
    });
  });
  opened.get_future().get();
  auto loop = control::ControlLoop::create().value();
  std::vector<std::optional<control::Channel>> silent(Peers::kMostUnused + 1);
  std::promise<void> ended;
  for (auto& channel : silent) {
    std::promise<void> connected;
    const auto dialing =
        control::connect(*loop, "127.0.0.1", other.listener->address().port,
                         {.security = control::Insecure{}}, seconds(60), [&](Result<control::Channel> made) {
                           channel.emplace(std::move(made.value()));
                           channel->start([](const Bytes&) {},
                                          [&, is_first = &channel == &silent.front()](const Error&) {
                                            if (is_first) ended.set_value();
                                          });
                           connected.set_value();
                         });
    connected.get_future().get();
  }
  ended.get_future().get();
  BOOST_TEST(other.peers->counters().refused == 1U);
  BOOST_TEST((one.ask(peer, "echo", "still here").value() == bytes_of("still here")));
  one.peers->loop().call([&] { used.reset(); });
  loop->call([&] { silent.clear(); });
}

BOOST_AUTO_TEST_SUITE_END()

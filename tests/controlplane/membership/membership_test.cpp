// Tests how a membership finds out that a process is dead, and which messages it accepts. Tests with whole
// groups of real processes are in tests/system/control_test.py.
#include <fcntl.h>
#include <rapidcheck.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <future>
#include <thread>

#include "controlplane/connect/socket.hpp"
#include "controlplane/membership/greeting.hpp"
#include "controlplane/membership/membership.hpp"
#include "controlplane/membership/signs_of_death.hpp"
#include "dataplane/base/clock.hpp"
#include "tests/controlplane/connect/harness.hpp"
#include "tests/dataplane/port/most_descriptors.hpp"

namespace rdmc::membership {
namespace {

Bytes any_bytes() {
  Bytes bytes(*rc::gen::inRange<std::size_t>(0, 40));
  for (std::byte& byte : bytes) byte = std::byte{*rc::gen::arbitrary<std::uint8_t>()};
  return bytes;
}

BOOST_AUTO_TEST_CASE(a_message_is_heard_as_it_was_said_and_cut_off_it_is_refused_or_another) {
  BOOST_TEST(rc::check([] {
    const auto number = [] { return *rc::gen::arbitrary<std::uint64_t>(); };
    const Greeting said{.id = view::MemberId{number()}, .address = Address::ipv4(10, 0, 0, 7, 7700)};
    const Bytes bytes = encode(said);
    RC_ASSERT(decode_greeting(bytes).value() == said);
    RC_ASSERT(!decode_greeting(std::span(bytes).first(*rc::gen::inRange<std::size_t>(0, bytes.size()))));
    static_cast<void>(decode_greeting(any_bytes()));
    const Data data{Epoch{number()}, any_bytes()};
    RC_ASSERT(encode(data).size() == data.bytes.size() + kDataHeadBytes);
    RC_ASSERT(std::get<Data>(decode(encode(data)).value()).bytes == data.bytes);
    const WindowGrant grant{Epoch{number()}, {number(), RemoteKey{7}}};
    RC_ASSERT(std::get<WindowGrant>(decode(encode(grant)).value()).window.address == grant.window.address);
    static_cast<void>(decode(any_bytes()));
  }));
}

/// A process that reports its identity and then does nothing until a signal kills it.
struct Idler {
  Idler() {
    int ends[2];
    BOOST_TEST_REQUIRE(::pipe(ends) == 0);
    const Descriptor from(ends[0]), to(ends[1]);
    pid = ::fork();
    if (pid == 0) {
      const ProcessIdentity self = identity_of_self();
      if (::write(to.get(), &self, sizeof self) == sizeof self)
        for (;;) ::pause();
      ::_exit(1);
    }
    BOOST_TEST_REQUIRE(::read(from.get(), &identity, sizeof identity) == sizeof identity);
  }
  ~Idler() { end(); }
  void end() {
    if (pid <= 0) return;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    pid = -1;
  }
  pid_t pid = -1;
  ProcessIdentity identity;
};

BOOST_AUTO_TEST_CASE(an_exit_is_seen_when_it_comes_and_an_older_life_under_the_same_number_is_over) {
  Idler idler;
  const ProcessIdentity self = identity_of_self();
  BOOST_TEST(idler.identity.pid == static_cast<std::uint32_t>(idler.pid));
  const auto loop = control::ControlLoop::create().value();
  const auto watch = [&](const ProcessIdentity& process, std::function<void()> exited) {
    return loop->call([&] { return watch_exit(*loop, self, process, std::move(exited)); });
  };
  ProcessIdentity former = idler.identity, elsewhere = idler.identity;
  --former.started;
  ++elsewhere.host;
  BOOST_TEST(!watch(elsewhere, [] {}));
  // The number `started` has another meaning in another time namespace. Without a start time, the process id
  // does not identify a process.
  ProcessIdentity other_time = idler.identity, unproved = idler.identity, without_proc = self;
  ++other_time.time_namespace;
  unproved.started = without_proc.started = 0;
  BOOST_TEST(!watch(other_time, [] {}));
  BOOST_TEST(!watch(unproved, [] {}));
  BOOST_TEST(!loop->call([&] { return watch_exit(*loop, without_proc, idler.identity, [] {}); }));
  std::promise<void> former_exited, exited;
  std::atomic<bool> has_exited = false;
  auto of_it = watch(idler.identity, [&] {
    has_exited = true;
    exited.set_value();
  });
  auto of_former = watch(former, [&] { former_exited.set_value(); });
  former_exited.get_future().get();
  BOOST_TEST(!has_exited);
  idler.end();
  exited.get_future().get();
  loop->call([&] { of_former.reset(), of_it.reset(); });
}

BOOST_AUTO_TEST_CASE(the_kernel_says_of_a_process_without_a_connection_to_it_whether_it_has_exited) {
  Idler idler;
  const ProcessIdentity self = identity_of_self(), process = idler.identity;
  ProcessIdentity former = process, elsewhere = process;
  --former.started;
  ++elsewhere.host;
  BOOST_TEST(!has_exited(self, process));
  BOOST_TEST(has_exited(self, former));
  ::kill(idler.pid, SIGKILL);
  siginfo_t dead{};
  ::waitid(P_PID, static_cast<id_t>(idler.pid), &dead, WEXITED | WNOWAIT);
  BOOST_TEST(has_exited(self, process));  // although its parent has not waited for it yet
  idler.end();
  BOOST_TEST(has_exited(self, process));
  BOOST_TEST(!has_exited(self, elsewhere));
  BOOST_TEST(!has_exited(self, {}));
}

BOOST_AUTO_TEST_CASE(a_process_has_exited_if_a_thread_of_another_process_has_its_id_now) {
  const ProcessIdentity self = identity_of_self();
  std::promise<std::uint32_t> begun;
  std::promise<void> end;
  std::thread another([&] {
    begun.set_value(static_cast<std::uint32_t>(::gettid()));
    end.get_future().wait();
  });
  ProcessIdentity former = self;
  former.pid = begun.get_future().get();
  former.started = peer::start_of_process(std::to_string(former.pid));
  for (const std::uint32_t thread : {0u, former.pid}) {
    former.thread = thread;
    const std::uint64_t started = std::exchange(former.started, former.started - 1);
    BOOST_TEST(has_exited(self, former));
    // The start time is the same. So it is not proved that the process is another one.
    former.started = started;
    BOOST_TEST(!has_exited(self, former));
  }
  end.set_value();
  another.join();
}

BOOST_AUTO_TEST_CASE(the_end_of_the_thread_that_takes_part_is_seen_where_the_kernel_tells_of_threads) {
  const auto loop = control::ControlLoop::create().value();
  std::promise<ProcessIdentity> begun;
  std::promise<void> end, exited;
  std::thread taking_part([&] {
    begun.set_value(identity_of_self());
    end.get_future().wait();
  });
  const ProcessIdentity identity = begun.get_future().get();
  BOOST_TEST(identity.thread != identity.pid);
  const Descriptor of_thread(static_cast<int>(::syscall(SYS_pidfd_open, identity.thread, O_EXCL)));
  std::atomic<bool> has_exited = false;
  auto watching = loop->call([&] {
    return watch_exit(*loop, identity, identity, [&] {
      has_exited = true;
      exited.set_value();
    });
  });
  BOOST_TEST_REQUIRE(watching.get());
  BOOST_TEST(!has_exited);
  end.set_value();
  taking_part.join();
  // Linux before 6.9 cannot watch a single thread. In this case the whole process is watched, and it is still
  // running.
  if (of_thread)
    exited.get_future().get();
  else
    BOOST_TEST(!has_exited);
  loop->call([&] { watching.reset(); });
}

BOOST_AUTO_TEST_CASE(nobody_listening_is_told_from_somebody_who_does_not_accept) {
  const auto loop = control::ControlLoop::create().value();
  auto listening = control::listen_on(Address::ipv4(127, 0, 0, 1, 0)).value();
  const Address address = control::local_address(listening.get());
  for (const bool refused : {false, true}) {
    if (refused) listening.reset();
    std::promise<bool> answered;
    auto probe = loop->call(
        [&] { return probe_listener(*loop, address, [&](bool nobody) { answered.set_value(nobody); }); });
    BOOST_TEST(answered.get_future().get() == refused);
    loop->call([&] { probe.reset(); });
  }
}

/// A store that answers no request, or answers reads with one view. It accepts no other view.
struct SilentStore final : view::ViewStore {
  void read(const std::string& group, ReadDone done) override {
    if (!stands.members.empty() && group == "g")
      loop->post([view = stands, done = std::move(done)] mutable { done(view); });
  }
  void compare_and_swap(const std::string& name, const view::View& next, SwapDone) override {
    if (name == "g") proposed.push_back(next);
  }
  void watch(const std::string&, Hint) override {}
  void list(ListDone) override {}

  control::ControlLoop* loop = nullptr;
  view::View stands;
  std::vector<view::View> proposed;
};

/// A membership, and the processes that send messages to it.
struct Spoken : control::testing::Harness {
  /// If `has_member` is true, the membership tries to join a view with one member. This member accepts
  /// connections but sends nothing.
  explicit Spoken(Duration greeting_within = seconds(20), bool has_member = false, Upcalls upcalls = {},
                  Duration lease = {}) {
    if (has_member) {
      listen(control::testing::insecure_options());
      store.loop = loop.get();
      store.stands = {Epoch{1}, {{.id = view::MemberId{7}, .address = listener->address()}}};
    }
    auto channel = control::testing::insecure_options();
    channel.handshake_deadline = greeting_within;
    membership = Membership::join(peer::Peers::create(*loop, channel).value(), store,
                                  {.group = "g",
                                   .name = "one",
                                   .listen = Address::ipv4(127, 0, 0, 1, 0),
                                   .fabric = "udp",
                                   .lease = lease,
                                   .context = context},
                                  std::move(upcalls))
                     .value();
    address = loop->call([&] { return membership->view().self().address; });
  }
  ~Spoken() {
    loop->call([&] {
      for (auto& end : clients) end.channel.reset();
      comers.clear();
    });
  }

  /// A separate process that greets the membership as the member `id`.
  struct Comer {
    std::shared_ptr<peer::Peers> peers;
    peer::Peers::Handle dialing;
    std::optional<control::Listener> listener;
  };
  /// Makes a process that greets the membership as the member `id`, and waits until its channel is open.
  /// `says` is the address in the greeting. If `says` is not given, the greeting has an address at which no
  /// process listens.
  control::testing::End& come(std::uint64_t id, std::optional<Address> says = {}) {
    const auto blob = data->offer(LinkId{id}).value();
    comers.push_back({peer::Peers::create(*loop, control::testing::insecure_options()).value(), {}});
    Comer& comer = comers.back();
    auto& end = clients.emplace_back(events);
    const Greeting greeting{view::MemberId{id},
                            says.value_or(Address::ipv4(127, 0, 0, 1, static_cast<std::uint16_t>(id)))};
    comer.dialing = comer.peers->dial(
        host_string(address), address.port, seconds(20),
        [this, &end, greeting, blob](Result<peer::Peer> process) {
          process.value().open("membership/g", {encode(greeting), blob},
                               [this, &end](Result<control::Channel> channel, const peer::Offer& theirs) {
                                 newest_blob = theirs.blob;
                                 end.take(std::move(channel.value()));
                               });
        });
    BOOST_TEST_REQUIRE(events.wait([&] { return end.established; }));
    return end;
  }
  /// Makes the process that come() made last listen at `at`.
  void listen_at(const Address& at) {
    Comer& comer = comers.back();
    comer.listener.emplace(comer.peers->listen(at, {.channel = comer.peers->options()}).value());
  }
  [[nodiscard]] bool is_ended(control::testing::End& end) {
    return events.wait([&] { return !end.closings.empty(); });
  }

  std::shared_ptr<peer::Context> context = std::make_shared<peer::Context>();
  std::unique_ptr<DataPath> data =
      DataPath::open({.fabric = "udp", .address = Address::ipv4(127, 0, 0, 1, 0), .context = context},
                     {.heard = [](LinkId, Bytes, DataPath::Permit) {}, .failed = [](LinkId, std::string) {}})
          .value();
  SilentStore store;
  std::unique_ptr<Membership> membership;
  Address address;
  // Must be used on the control loop.
  std::list<Comer> comers;
  // The blob that the membership has offered to the process that come() made last.
  Bytes newest_blob;
};

BOOST_AUTO_TEST_CASE(who_speaks_of_more_than_the_next_epoch_is_not_kept_and_who_says_too_much_is_dropped) {
  Spoken world;
  auto& peer = world.come(7);
  const auto say = [&](const Message& message) { BOOST_TEST(world.send(peer, encode(message)).has_value()); };
  for (const std::uint64_t epoch : {1, 2, 1}) say(Data{Epoch{epoch}, Bytes(Membership::kMostBytes)});
  // The membership closes the channel because of this message. So when the channel has ended, the membership
  // has handled all earlier messages.
  say(Data{Epoch{1}, Bytes(Membership::kMostBytes + 1)});
  BOOST_TEST(world.is_ended(peer));
  const Counters counters = world.loop->call([&] { return world.membership->counters(); });
  BOOST_TEST(counters.connected == 1u);
  BOOST_TEST(counters.fenced == 1u);
  BOOST_TEST(counters.delivered == 0u);
}

BOOST_AUTO_TEST_CASE(of_one_peer_no_more_is_taken_in_than_is_done_with) {
  const LinkId link{1};
  const DataPathOptions options{.fabric = "udp", .address = Address::ipv4(127, 0, 0, 1, 0)};
  control::testing::Events events;
  std::size_t heard = 0;
  bool failed = false;
  std::vector<DataPath::Permit> places;
  const auto fails = [&](LinkId, std::string) { events.change([&] { failed = true; }); };
  const auto to = DataPath::open(options, {.heard =
                                               [&](LinkId, Bytes, DataPath::Permit place) {
                                                 events.change([&] {
                                                   ++heard;
                                                   places.push_back(std::move(place));
                                                 });
                                               },
                                           .failed = fails})
                      .value();
  const auto from =
      DataPath::open(options, {.heard = [](LinkId, Bytes, DataPath::Permit) {}, .failed = fails}).value();
  const auto of_from = from->offer(link).value(), of_to = to->offer(link).value();
  BOOST_TEST_REQUIRE((from->connect(link, of_to).has_value() && to->connect(link, of_from).has_value()));
  // The messages are sent one after the other. So each message finds space.
  const auto say_until = [&](auto has_come) {
    from->say(link, Bytes(8));
    const auto limit = std::chrono::steady_clock::now() + control::testing::kPatience;
    while (!has_come() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    BOOST_TEST_REQUIRE(has_come());
  };
  const auto has_heard = [&](std::size_t count) {
    return [&, count] {
      bool has = false;
      events.change([&] { has = heard == count; });
      return has;
    };
  };
  for (std::size_t i = 1; i <= DataPath::kMostUnheard; ++i) say_until(has_heard(i));
  for (std::uint64_t i = 1; i <= 4; ++i) say_until([&] { return to->dropped() == i; });
  BOOST_TEST(has_heard(DataPath::kMostUnheard)());
  events.change([&] { places.clear(); });
  say_until(has_heard(DataPath::kMostUnheard + 1));
  BOOST_TEST(!failed);
}

BOOST_AUTO_TEST_CASE(
    a_drain_ends_when_everything_that_had_arrived_has_been_heard_though_its_thread_did_not_run) {
  constexpr std::size_t kMessages = 9;
  const LinkId link{1};
  // Each data path must have its own fabric thread, so each gets its own context.
  const auto options = [] {
    return DataPathOptions{.fabric = "udp",
                           .address = Address::ipv4(127, 0, 0, 1, 0),
                           .context = std::make_shared<peer::Context>()};
  };
  const auto ignore = [](LinkId, std::string) {};
  std::atomic<std::size_t> heard = 0;
  std::promise<void> stopped, go_on;
  const auto to = DataPath::open(options(), {.heard =
                                                 [&](LinkId, Bytes, DataPath::Permit) {
                                                   if (heard++ > 0) return;
                                                   stopped.set_value();
                                                   go_on.get_future().wait();
                                                 },
                                             .failed = ignore})
                      .value();
  const auto from =
      DataPath::open(options(), {.heard = [](LinkId, Bytes, DataPath::Permit) {}, .failed = ignore}).value();
  const auto of_from = from->offer(link).value(), of_to = to->offer(link).value();
  BOOST_TEST_REQUIRE((from->connect(link, of_to).has_value() && to->connect(link, of_from).has_value()));
  from->say(link, Bytes(8));
  stopped.get_future().wait();
  for (std::size_t i = 1; i < kMessages; ++i) from->say(link, Bytes(8));
  std::promise<void> sent;
  from->drain([&] { sent.set_value(); });
  sent.get_future().wait();
  std::promise<std::size_t> heard_by_then;
  to->drain([&] { heard_by_then.set_value(heard); });
  go_on.set_value();
  BOOST_TEST(heard_by_then.get_future().get() == kMessages);
}

/// A member whose messages the test sends. It greets the membership of `world`.
struct PlayedMember {
  explicit PlayedMember(Spoken& in) : world(in), end(in.come(value_of(id))) {}
  void say(const Message& message) { BOOST_TEST(world.send(end, encode(message)).has_value()); }
  /// Sends a message over the data path. The caller must call connect_data_path() before.
  void say_by_data_path(const Message& message) { world.data->say(link, encode(message)); }
  void connect_data_path() {
    BOOST_TEST(world.data->connect(link, world.newest_blob).has_value());
    say(Ready{});
  }
  void say_that_it_hears(view::MemberId other) {
    say(Words{encode(view::Message(
        view::Status{.from = id, .sequence = ++sequence, .epoch = Epoch{1}, .hears = {other}}))});
  }

  static constexpr view::MemberId id{7};
  static constexpr LinkId link{7};
  const Address address = Address::ipv4(127, 0, 0, 1, static_cast<std::uint16_t>(id));
  Spoken& world;
  control::testing::End& end;
  std::uint64_t sequence = 0;
};

BOOST_AUTO_TEST_CASE(the_application_is_told_of_a_member_that_it_cannot_reach_and_when_it_can_again) {
  control::testing::Events events;
  std::vector<view::Unreachable> lost;
  std::vector<view::MemberId> found;
  Spoken world(
      seconds(20), false,
      {.unreachable = [&](const auto& link) { events.change([&] { lost.push_back(link); }); },
       .reachable = [&](view::MemberId member) { events.change([&] { found.push_back(member); }); }});
  PlayedMember peer(world);
  const view::MemberId self = world.loop->call([&] {
    world.store.loop = world.loop.get();
    const view::Member& one = world.membership->view().self();
    world.store.stands = {Epoch{1}, {one, {.id = peer.id, .address = peer.address}}};
    return one.id;
  });
  // The store accepts no other view, so the silent member stays in the view and only becomes unreachable.
  BOOST_TEST_REQUIRE(events.wait([&] { return !lost.empty(); }));
  BOOST_TEST((lost[0].member == peer.id && !lost[0].heard && !lost[0].hears_us));
  BOOST_TEST(!world.loop->call([&] { return world.membership->view().reaches(peer.id); }));
  peer.say_that_it_hears(self);
  BOOST_TEST_REQUIRE(events.wait([&] { return !found.empty(); }));
  BOOST_TEST((found[0] == peer.id));
}

BOOST_AUTO_TEST_CASE(a_joiner_that_names_a_member_s_address_takes_its_place_only_if_it_answers_there) {
  const view::MemberId former{7}, joiner{33};
  for (const auto listening : {former, joiner}) {
    control::testing::Events events;
    bool installed = false;
    Spoken world(seconds(20), false,
                 {.installed = [&](const view::View&) { events.change([&] { installed = true; }); }});
    // Finds an address with a free port.
    const Address at =
        control::local_address(control::listen_on(Address::ipv4(127, 0, 0, 1, 0)).value().get());
    std::map<view::MemberId, control::testing::End*> ends;
    for (const auto id : {former, joiner}) {
      ends[id] = &world.come(value_of(id), at);
      if (id == listening) world.listen_at(at);
    }
    const view::Member member{.id = former, .address = at, .host = 5};
    const view::MemberId self = world.loop->call([&] {
      world.store.loop = world.loop.get();
      world.store.stands = {Epoch{1}, {world.membership->view().self(), member}};
      return world.membership->view().self().id;
    });
    BOOST_TEST_REQUIRE(events.wait([&] { return installed; }));
    view::Member newcomer = member;
    newcomer.id = joiner;
    for (auto status : {view::Status{.from = former, .hears = {self}},
                        view::Status{.from = joiner, .hears = {self}, .joining = newcomer}}) {
      // If the joiner listens at the address, the former member is dead, so it sends nothing.
      if (status.from == former && listening == joiner) continue;
      status.sequence = 1;
      status.epoch = Epoch{1};
      BOOST_TEST(world.send(*ends[status.from], encode(Words{encode(view::Message(status))})).has_value());
    }
    const auto limit = std::chrono::steady_clock::now() + control::testing::kPatience;
    view::FailureView::Counters counters;
    std::vector<view::View> proposed;
    while (proposed.empty() && counters.address_claims_denied == 0 &&
           std::chrono::steady_clock::now() < limit)
      world.loop->call([&] {
        counters = world.membership->view().counters();
        proposed = world.store.proposed;
      });
    BOOST_TEST(counters.listeners_asked == 1u);
    BOOST_TEST(counters.address_claims_denied == (listening == former ? 1u : 0u));
    BOOST_TEST_REQUIRE(proposed.size() == (listening == former ? 0u : 1u));
    if (listening == joiner) BOOST_TEST((!proposed[0].contains(former) && proposed[0].contains(joiner)));
  }
}

BOOST_AUTO_TEST_CASE(a_lease_is_held_in_the_view_that_is_installed_and_lost_when_the_store_falls_silent) {
  control::testing::Events events;
  int gained = 0, lost = 0;
  std::vector<Epoch> over;
  Spoken world(seconds(20), false,
               {.earlier_leases_over = [&](Epoch epoch) { events.change([&] { over.push_back(epoch); }); },
                .lease_gained = [&] { events.change([&] { ++gained; }); },
                .lease_lost = [&] { events.change([&] { ++lost; }); }},
               milliseconds(200));
  BOOST_TEST(!world.membership->holds_lease(Epoch{1}));
  world.loop->call([&] {
    world.store.loop = world.loop.get();
    world.store.stands = {Epoch{1}, {world.membership->view().self()}};
  });
  BOOST_TEST_REQUIRE(events.wait([&] { return gained > 0; }));
  BOOST_TEST((over == std::vector{Epoch{1}}));
  // The lease is renewed on the loop's thread. Other threads check the lease at any moment. They can find
  // that it has expired between two turns of the loop.
  const auto comes_to = [&](bool held) {
    const auto limit = std::chrono::steady_clock::now() + control::testing::kPatience;
    bool holds = !held;
    while (holds != held && std::chrono::steady_clock::now() < limit) {
      std::this_thread::yield();
      holds = world.membership->holds_lease(Epoch{1});
    }
    return holds == held;
  };
  BOOST_TEST(comes_to(true));
  BOOST_TEST(!world.membership->holds_lease(Epoch{0}));
  BOOST_TEST(!world.membership->holds_lease(Epoch{2}));
  world.loop->call([&] { world.store.stands = {}; });
  BOOST_TEST(comes_to(false));
  BOOST_TEST_REQUIRE(events.wait([&] { return lost > 0; }));
}

BOOST_AUTO_TEST_CASE(what_is_forged_on_a_data_path_that_is_not_encrypted_gives_no_lease_and_brings_no_view) {
  control::testing::Events events;
  bool gained = false;
  std::vector<Epoch> installed;
  std::size_t delivered = 0;
  Spoken world(
      seconds(20), false,
      {.installed = [&](const view::View& view) { events.change([&] { installed.push_back(view.epoch); }); },
       .delivered = [&](view::MemberId, std::span<const std::byte>) { events.change([&] { ++delivered; }); },
       .lease_gained = [&] { events.change([&] { gained = true; }); }},
      seconds(1));
  PlayedMember peer(world);
  const view::View view = world.loop->call([&] {
    world.store.loop = world.loop.get();
    return world.store.stands = view::View{
               Epoch{1}, {world.membership->view().self(), {.id = peer.id, .address = peer.address}}};
  });
  BOOST_TEST_REQUIRE(events.wait([&] { return !installed.empty(); }));
  const auto granting = [&] {
    const view::MemberId self = view.members[0].id;
    view::Status status{.from = peer.id, .sequence = ++peer.sequence, .epoch = Epoch{1}, .hears = {self}};
    for (std::uint64_t sequence = 1; sequence <= 200; ++sequence) status.granted.push_back({self, sequence});
    return Words{view::encode(view::Message(status))};
  };
  peer.connect_data_path();
  peer.say_by_data_path(granting());
  peer.say_by_data_path(Words{view::encode(view::Message(view::without(view, peer.id)))});
  // The data path keeps the order of messages. So the forged messages have been handled when this message is
  // delivered.
  peer.say_by_data_path(Data{Epoch{1}, Bytes(1)});
  BOOST_TEST_REQUIRE(events.wait([&] { return delivered == 1; }));
  BOOST_TEST(!world.membership->holds_lease(Epoch{1}));
  events.change([&] { BOOST_TEST((!gained && installed == std::vector{Epoch{1}})); });
  // When the member itself sends the same message over the control connection, the process gets the lease.
  const auto limit = std::chrono::steady_clock::now() + control::testing::kPatience;
  for (bool has = false; !has && std::chrono::steady_clock::now() < limit;) {
    peer.say(granting());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    events.change([&] { has = gained; });
  }
  BOOST_TEST(gained);
}

/// If the loop does not run, the lease is not renewed, but it must still end.
BOOST_AUTO_TEST_CASE(a_lease_ends_by_the_clock_though_the_loop_stands_still) {
  control::testing::Events events;
  bool gained = false;
  Spoken world(seconds(20), false, {.lease_gained = [&] { events.change([&] { gained = true; }); }},
               milliseconds(100));
  world.loop->call([&] {
    world.store.loop = world.loop.get();
    world.store.stands = {Epoch{1}, {world.membership->view().self()}};
  });
  BOOST_TEST_REQUIRE(events.wait([&] { return gained; }));
  world.loop->call([&] {
    const Time until = world.membership->view().lease_until();
    while (boottime_now() < until) std::this_thread::yield();
    BOOST_TEST(!world.membership->holds_lease(Epoch{1}));
  });
}

BOOST_AUTO_TEST_CASE(who_takes_its_time_to_say_its_name_has_one_connection_at_a_time) {
  // The membership has about six statuses for the member while one connection lasts.
  Spoken world(milliseconds(300), true);
  std::ptrdiff_t most = 0;
  BOOST_TEST(world.events.wait([&] {
    const auto ended =
        std::ranges::count_if(world.accepted, [](const auto& end) { return !end.closings.empty(); });
    most = std::max(most, std::ranges::ssize(world.accepted) - ended);
    return ended == 2;
  }));
  BOOST_TEST(most == 1);
}

BOOST_AUTO_TEST_CASE(one_link_too_many_takes_the_place_of_the_oldest_that_is_no_member) {
  const port::test::MostDescriptors many(4096);
  Spoken world;
  auto& first = world.come(1);
  for (std::size_t i = 2; i <= Membership::kMostLinks; ++i) world.come(i);
  world.events.change([&] { BOOST_TEST(first.closings.empty()); });
  world.come(Membership::kMostLinks + 1);
  BOOST_TEST(world.is_ended(first));
}

BOOST_AUTO_TEST_CASE(a_group_whose_name_no_store_keeps_apart_from_others_is_joined_by_nobody) {
  const auto loop = control::ControlLoop::create().value();
  SilentStore store;
  for (const std::string& name :
       {std::string(), std::string("g?claim"), std::string("a\nb"), std::string(250, 'g')}) {
    const auto joined =
        Membership::join(peer::Peers::create(*loop, control::testing::insecure_options()).value(), store,
                         {.group = name, .listen = Address::ipv4(127, 0, 0, 1, 0)}, {});
    BOOST_TEST_REQUIRE(!joined.has_value());
    BOOST_TEST((joined.error().code == Errc::invalid_argument));
  }
}

}  // namespace
}  // namespace rdmc::membership

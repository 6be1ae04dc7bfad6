// Tests the public membership: views of several members, with real nodes of the embedded store.
#include <boost/test/unit_test.hpp>

#include "controlplane/connect/socket.hpp"
#include "controlplane/membership/membership.hpp"
#include "controlplane/store/embedded_store.hpp"
#include "controlplane/store/survivor.hpp"
#include "tests/lib/membership/members.hpp"

BOOST_AUTO_TEST_SUITE(membership_test)

using namespace rdmc;
using namespace rdmc::testing;

namespace {

std::vector<MemberId> ids_of(const View& view) {
  std::vector<MemberId> ids;
  for (const Member& member : view.members) ids.push_back(member.id);
  return ids;
}

/// A store whose compare-and-swaps wait while the gate is closed. It may be used only on the control loop.
class GatedStore final : public view::ViewStore {
 public:
  explicit GatedStore(view::ViewStore& store) : store_(store) {}
  void read(const std::string& group, ReadDone done) override { store_.read(group, std::move(done)); }
  void compare_and_swap(const std::string& group, const view::View& next, SwapDone done) override {
    if (!is_closed_) return store_.compare_and_swap(group, next, std::move(done));
    waiting_.push_back([this, group, next, done = std::move(done)]() mutable {
      store_.compare_and_swap(group, next, std::move(done));
    });
  }
  void watch(const std::string& group, Hint hint) override { store_.watch(group, std::move(hint)); }
  void list(ListDone done) override { store_.list(std::move(done)); }

  void close() { is_closed_ = true; }
  void open() {
    is_closed_ = false;
    for (auto& swap : std::exchange(waiting_, {})) swap();
  }
  std::size_t waiting() const { return waiting_.size(); }

 private:
  view::ViewStore& store_;
  bool is_closed_ = false;
  std::vector<std::move_only_function<void()>> waiting_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(members_join_in_the_order_of_their_age_and_one_that_leaves_is_told) {
  const OneStore store;
  Process one(store, "one");
  BOOST_TEST(one.sees(1));
  Process two(store, "two");
  BOOST_TEST((one.sees(2) && two.sees(2)));
  Process three(store, "three");
  for (Process* const process : {&one, &two, &three}) BOOST_TEST(process->sees(3));
  const View view = three.membership->view();
  BOOST_TEST((ids_of(view) == std::vector{one.id(), two.id(), three.id()}));
  BOOST_TEST((one.membership->view() == view));
  BOOST_TEST(view.members[1].name == "two");
  BOOST_TEST((view.find(two.id())->address == two.membership->address()));
  BOOST_TEST((value_of(view.members[2].since) == value_of(view.epoch)));

  two.membership->leave();
  BOOST_TEST(two.told.wait([&] { return two.removed.has_value(); }));
  BOOST_TEST((one.sees(2) && three.sees(2)));
  BOOST_TEST(failed_with(two.membership->broadcast({}), Errc::cancelled));
  BOOST_TEST(failed_with(two.membership->write(0, {}), Errc::cancelled));
  BOOST_TEST(one.membership->counters().installed >= 4U);
}

BOOST_AUTO_TEST_CASE(messages_reach_all_other_members_and_writes_their_windows) {
  const OneStore store;
  Process one(store, "one"), two(store, "two");
  BOOST_TEST((one.sees(2) && two.sees(2)));
  const std::vector<std::byte> bytes(100, std::byte{5});
  // A message may be lost, and a window cannot be written from the beginning. So both the message and the
  // write are repeated until they have arrived.
  const auto arrived = [&] {
    bool has_come = false;
    two.told.tell([&] { has_come = !two.messages.empty(); });
    return has_come && two.membership->window()[40] == std::byte{5};
  };
  while (!arrived()) {
    BOOST_TEST_REQUIRE(one.membership->broadcast(bytes).has_value());
    BOOST_TEST_REQUIRE(one.membership->write(40, bytes).has_value());
    // This call waits until the control loop has sent them.
    static_cast<void>(one.membership->counters());
  }
  two.told.tell([&] {
    BOOST_TEST((two.messages.front().first == one.id()));
    BOOST_TEST((two.messages.front().second == bytes));
  });
  BOOST_TEST(failed_with(one.membership->broadcast(std::vector<std::byte>(4001)), Errc::invalid_argument));
  BOOST_TEST(failed_with(one.membership->write(4096, bytes), Errc::invalid_argument));
}

BOOST_AUTO_TEST_CASE(an_operator_removes_a_member_which_is_told_and_speaks_to_nobody_any_more) {
  const OneStore store;
  Process one(store, "one"), two(store, "two"), three(store, "three");
  for (Process* const process : {&one, &two, &three}) BOOST_TEST(process->sees(3));
  std::optional<Result<void>> unknown, done;
  one.membership->remove(MemberId{1}, [&](Result<void> result) { one.told.tell([&] { unknown = result; }); });
  one.membership->remove(three.id(), [&](Result<void> result) { one.told.tell([&] { done = result; }); });
  BOOST_TEST(one.told.wait([&] { return unknown && done; }));
  BOOST_TEST(failed_with(*unknown, Errc::not_found));
  BOOST_TEST(done->has_value());
  BOOST_TEST(three.told.wait([&] { return three.removed.has_value(); }));
  BOOST_TEST((one.sees(2) && two.sees(2)));
  BOOST_TEST((three.removed->find(three.id()) == nullptr));
  BOOST_TEST(failed_with(three.membership->broadcast({}), Errc::cancelled));
}

BOOST_AUTO_TEST_CASE(a_member_that_stops_while_the_store_is_away_is_unreachable_until_it_goes_on) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("rdmc-membership-" + std::to_string(::getpid()));
  {
    OneStore store(folder.string());
    Process one(store, "one");
    BOOST_TEST_REQUIRE(one.sees(1));
    KilledProcess other(store);
    BOOST_TEST_REQUIRE(one.sees(2));
    store.stop();
    BOOST_TEST_REQUIRE(one.told.wait([&] { return one.store_lost > 0; }));
    other.stop();
    BOOST_TEST_REQUIRE(one.told.wait([&] { return !one.unreachable.empty(); }));
    const MemberId stopped = one.views.back().members[1].id;
    BOOST_TEST((one.unreachable[0].member == stopped && !one.unreachable[0].is_heard));
    other.go_on();
    BOOST_TEST_REQUIRE(one.told.wait([&] { return !one.reachable.empty(); }));
    BOOST_TEST((one.reachable[0] == stopped));
    store.start();
    BOOST_TEST_REQUIRE(one.told.wait([&] { return one.store_found > 0; }));
    const MembershipCounters counters = one.membership->counters();
    BOOST_TEST(counters.unreachable >= 1U);
    BOOST_TEST(counters.store_failures >= 1U);
  }
  std::filesystem::remove_all(folder);
}

BOOST_AUTO_TEST_CASE(a_process_of_another_group_where_a_member_was_is_refused_and_named) {
  const OneStore store;
  const Descriptor port = control::reserve(Address::ipv4(127, 0, 0, 1, 0)).value();
  MembershipOptions options = options_for(store.address(), "one");
  options.address = control::local_address(port.get());
  auto former = std::make_unique<Process>(options);
  BOOST_TEST_REQUIRE(former->sees(1));
  former.reset();
  options.group = "other";
  options.context = make_context();
  Process elsewhere(options), joiner(store, "joiner");
  BOOST_TEST(joiner.told.wait([&] { return !joiner.refused.empty(); }));
  BOOST_TEST((joiner.refused[0] == Errc::not_found));
  BOOST_TEST(joiner.membership->counters().refused >= 1U);
}

BOOST_AUTO_TEST_CASE(who_leaves_before_it_is_in_a_view_is_told_that_it_is_removed) {
  OneStore store;
  store.stop();
  Process one(store, "one");
  one.membership->leave();
  BOOST_TEST(one.told.wait([&] { return one.removed.has_value(); }));
  BOOST_TEST(one.views.empty());
  BOOST_TEST(failed_with(one.membership->create_group(kNumber, {}, {}), Errc::cancelled));
}

BOOST_AUTO_TEST_CASE(a_removal_that_was_asked_for_is_answered_though_the_membership_is_over) {
  const OneStore store;
  Process one(store, "one");
  BOOST_TEST_REQUIRE(one.sees(1));
  Membership* const membership = one.membership.get();
  std::optional<Result<void>> before, meanwhile;
  MemberGroupCallbacks on;
  on.ended = [&](const Error&) {
    membership->remove(MemberId{1}, [&](const Result<void>& result) { meanwhile = result; });
  };
  const auto group = membership->create_group(kNumber, {.first_members = 2}, on).value();
  membership->remove(MemberId{1}, [&](const Result<void>& result) { before = result; });
  one.membership.reset();
  BOOST_TEST((before && failed_with(*before, Errc::not_found)));
  BOOST_TEST((meanwhile && failed_with(*meanwhile, Errc::cancelled)));
}

BOOST_AUTO_TEST_CASE(a_process_that_is_killed_is_removed) {
  const OneStore store;
  Process one(store, "one"), two(store, "two");
  BOOST_TEST((one.sees(2) && two.sees(2)));
  KilledProcess killed(store);
  BOOST_TEST((one.sees(3) && two.sees(3)));
  killed.kill();
  BOOST_TEST((one.sees(2) && two.sees(2)));
  BOOST_TEST((one.membership->view() == two.membership->view()));
}

// The member that proposes the next view must notice every exit on its host at once. The other members do not
// need a pidfd for each process.
BOOST_AUTO_TEST_CASE(the_two_oldest_members_of_a_host_watch_its_processes_and_when_both_die_the_next_two_do) {
  const OneStore store;
  auto observer = std::make_unique<Process>(store, "observer");
  BOOST_TEST(observer->sees(1));
  KilledProcess oldest(store), second(store);
  BOOST_TEST(observer->sees(3));
  observer->membership->leave();
  BOOST_TEST(observer->told.wait([&] { return observer->removed.has_value(); }));
  observer.reset();
  Process third(store, "third");
  BOOST_TEST(third.sees(3));
  KilledProcess fourth(store);
  BOOST_TEST(third.sees(4));
  KilledProcess fifth(store), sixth(store);
  BOOST_TEST(third.sees(6));
  BOOST_TEST((oldest.watches(5) && second.watches(5)));
  BOOST_TEST((fourth.watches(2) && fifth.watches(2) && sixth.watches(2)));
  oldest.kill();
  second.kill();
  BOOST_TEST(third.sees(4));
  BOOST_TEST((fourth.watches(3) && fifth.watches(2) && sixth.watches(2)));
  sixth.kill();
  BOOST_TEST(third.sees(3));
}

// The exit of the process is reported only once, and before any view contains the process. Silence never
// removes a member in this test.
BOOST_AUTO_TEST_CASE(a_process_that_dies_just_before_it_enters_the_view_is_out_of_it_at_once) {
  const OneStore store;
  const auto loop = control::ControlLoop::create().value();
  const control::ChannelOptions channel{.security = control::Insecure{}};
  const auto client =
      store::EmbeddedStore::create(*loop, {.nodes = {store.address()}, .channel = channel}).value();
  GatedStore gated(*client);
  Told told;
  std::vector<std::size_t> views;  // the number of members of each view
  constexpr Duration kNever = seconds(100'000);
  auto membership =
      membership::Membership::join(
          peer::Peers::create(*loop, channel).value(), gated,
          {.group = "g",
           .name = "one",
           .listen = Address::ipv4(127, 0, 0, 1, 0),
           .fabric = "udp",
           .timing = {.suspect_floor = kNever, .suspect_cap = kNever},
           .context = make_context()},
          {.installed =
               [&](const view::View& view) { told.tell([&] { views.push_back(view.members.size()); }); }})
          .value();
  const auto until = [&](auto condition) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!loop->call(condition) && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return loop->call(condition);
  };
  BOOST_TEST_REQUIRE(told.wait([&] { return views == std::vector<std::size_t>{1}; }));
  loop->call([&] { gated.close(); });
  KilledProcess joiner(store);
  BOOST_TEST(until([&] { return gated.waiting() > 0; }));
  joiner.kill();
  BOOST_TEST(until([&] { return membership->counters().deaths_seen > 0; }));
  loop->call([&] { gated.open(); });
  BOOST_TEST(told.wait([&] { return views == std::vector<std::size_t>{1, 2, 1}; }));
  membership.reset();
}

BOOST_AUTO_TEST_CASE(a_lease_is_held_in_the_present_epoch_and_lost_without_the_store) {
  OneStore store;
  Process one(store, "one", milliseconds(500)), two(store, "two");
  BOOST_TEST((one.sees(2) && two.sees(2)));
  const Epoch epoch = one.membership->view().epoch;
  BOOST_TEST(one.told.wait([&] { return one.leases_over == epoch && one.gained > one.lost; }));
  while (!one.membership->holds_lease(epoch)) static_cast<void>(one.membership->counters());
  BOOST_TEST(!one.membership->holds_lease(Epoch{value_of(epoch) - 1}));
  BOOST_TEST(!two.membership->holds_lease(epoch));
  store.stop();
  BOOST_TEST(one.told.wait([&] { return one.lost == one.gained && one.store_lost > 0; }));
  BOOST_TEST(!one.membership->holds_lease(epoch));
}

BOOST_AUTO_TEST_CASE(the_processes_of_a_job_keep_their_views_themselves) {
  LaunchedJob job{
      .id = {}, .address = Address::ipv4(127, 0, 0, 1, 0), .members = {}, .mesh = {.insecure = true}};
  job.mesh.job = "a job";
  std::vector<Descriptor> ports;
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    ports.push_back(control::reserve(job.address).value());
    job.members.push_back({NodeId{rank}, "127.0.0.1", control::local_address(ports.back().get()).port});
  }
  std::vector<std::unique_ptr<Process>> processes;
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    job.id = NodeId{rank};
    MembershipOptions options = membership_options(job).value();
    BOOST_TEST(options.store.nodes.size() == 3U);
    BOOST_TEST(options.store.runs.has_value() == (rank < 3));
    options.fabric = "udp";
    options.context = make_context();
    processes.push_back(std::make_unique<Process>(options));
  }
  for (const auto& process : processes) BOOST_TEST(process->sees(4));
  processes.erase(processes.begin());
  for (const auto& process : processes) BOOST_TEST(process->sees(3));
  job.members.resize(2);
  BOOST_TEST(membership_options(job).value().store.nodes.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_process_is_told_that_the_store_node_which_it_runs_has_ended) {
  std::vector<Descriptor> reserved;
  std::vector<Address> nodes;
  for (std::size_t i = 0; i < 3; ++i) {
    reserved.push_back(control::reserve(Address::ipv4(127, 0, 0, 1, 0)).value());
    nodes.push_back(control::local_address(reserved.back().get()));
  }
  std::vector<std::unique_ptr<Process>> processes;
  for (std::size_t i = 0; i < 3; ++i) {
    MembershipOptions options = options_for(nodes[0], std::to_string(i));
    options.store = {.nodes = nodes, .runs = i};
    processes.push_back(std::make_unique<Process>(options));
  }
  for (const auto& process : processes) BOOST_TEST(process->sees(3));
  // An operator names node 0 as the surviving node. So the other two nodes are replaced in the store.
  const auto loop = control::ControlLoop::create().value();
  BOOST_TEST(store::name_survivor(*loop, nodes[0], {.security = control::Insecure{}}, true).has_value());
  for (const std::size_t i : {1U, 2U}) {
    Process& process = *processes[i];
    BOOST_TEST(process.told.wait([&] { return process.node_ended.has_value(); }));
    BOOST_TEST((process.node_ended->code == Errc::cancelled));
    BOOST_TEST(process.membership->counters().store_nodes_ended == 1U);
  }
  BOOST_TEST(!processes[0]->node_ended.has_value());
  BOOST_TEST(processes[0]->membership->counters().store_nodes_ended == 0U);
}

BOOST_AUTO_TEST_CASE(options_that_make_no_sense_are_refused_by_name) {
  const OneStore store;
  const auto join = [](const MembershipOptions& options) { return Membership::join(options, {}); };
  MembershipOptions options = options_for(store.address(), "one");
  options.store.etcd = options.store.nodes;
  BOOST_TEST(failed_with(join(options), Errc::invalid_argument));
  options.store = {};
  BOOST_TEST(failed_with(join(options), Errc::invalid_argument));
  options.store = {.nodes = {store.address()}, .runs = 1};
  BOOST_TEST(failed_with(join(options), Errc::invalid_argument));
  options.store = {.nodes = {store.address()}};
  options.insecure = false;
  BOOST_TEST(failed_with(join(options), Errc::invalid_argument));
  options.insecure = true;
  options.group.clear();
  BOOST_TEST(failed_with(join(options), Errc::invalid_argument));
  options.group = "g";
  const auto first = join(options);
  BOOST_TEST(first.has_value());
  BOOST_TEST(failed_with(join(options), Errc::already_exists));
}

BOOST_AUTO_TEST_SUITE_END()

// Replicated states over real memberships and groups. Each replica acts as a separate process. Its
// application keeps the list of all events, and has a thread.
#include "lib/include/rdmc/replicated_state.hpp"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstring>
#include <set>
#include <thread>

#include "tests/lib/membership/members.hpp"

BOOST_AUTO_TEST_SUITE(replicated_state_test)

using namespace rdmc;
using namespace rdmc::testing;

namespace {

constexpr Duration kLease = milliseconds(200);

/// A replica whose state is the list of all events.
class Replica {
 public:
  Replica(const OneStore& store, const ReplicatedStateOptions& options, std::size_t ballast = 0)
      : process(store, "a replica", kLease), ballast_(ballast, std::byte{7}) {
    state = ReplicatedState::open(*process.membership, options).value();
    thread_ = std::thread([this] {
      while (!is_ending_) {
        has_paused = is_paused.load();
        if (has_paused)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        else if (auto change = state->take(milliseconds(50)))
          std::visit([&](auto& one) { told.tell([&] { on(one); }); }, *change);
      }
    });
  }
  ~Replica() {
    is_ending_ = true;
    thread_.join();
    writers_.clear();
    state.reset();
  }

  /// From now on, the application takes no changes. Waits until it takes none.
  void pause() {
    is_paused = true;
    while (!has_paused) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  void go_on() { is_paused = false; }
  std::uint64_t submit(const std::string& text) {
    for (;;) {
      const auto number = state->submit(std::as_bytes(std::span(text)));
      if (number) return *number;
      BOOST_TEST_REQUIRE((number.error().code == Errc::would_block), number.error().what);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  bool has(std::size_t count) {
    return told.wait([&] { return events.size() >= count; });
  }
  bool has_answered(std::uint64_t number) {
    return told.wait([&] { return answered >= number; });
  }
  bool is_complete(std::uint32_t count) {
    return told.wait([&] { return status.is_complete && status.complete_replicas == count; });
  }

  std::atomic<bool> drops_writers = false;  // the application does not save its state
  // The application stops when it should load a state. When it saves, it waits until nearly all is sent.
  std::atomic<bool> pauses_to_load = false, waits_to_save = false;
  std::atomic<bool> has_waited_in_vain = false, has_begun_to_load = false;
  Process process;
  std::unique_ptr<ReplicatedState> state;
  Told told;
  std::vector<std::string> events;
  std::map<std::uint64_t, std::uint64_t> unanswered;  // own events: the position, and the number
  std::atomic<std::uint64_t> answered = 0;            // own events up to this number are answered
  ReplicaStatus status;
  std::atomic<std::uint64_t> applied = 0;  // the position after the last event
  std::atomic<std::size_t> saved = 0, loaded_bytes = 0;
  std::optional<Error> ended;
  std::int64_t time = 0;
  std::atomic<bool> went_back = false;

 private:
  void on(OrderedEvent& event) {
    events.emplace_back(reinterpret_cast<const char*>(event.bytes.data()), event.bytes.size());
    went_back = went_back || event.time < time;
    time = event.time;
    applied = event.position + 1;
    if (event.own_number != 0) unanswered[event.position] = event.own_number;
  }
  void on(StableEvents& stable) {
    for (; !unanswered.empty() && unanswered.begin()->first < stable.position;
         unanswered.erase(unanswered.begin()))
      answered = unanswered.begin()->second;
  }
  void on(ReplicaStatus& now) { status = now; }
  void on(SaveState& save) {
    ++saved;
    if (drops_writers) return;
    for (const std::string& event : events) {
      std::vector<std::byte> bytes(event.size() + 1);
      std::memcpy(bytes.data(), event.data(), event.size());
      save.to.write(std::move(bytes));
    }
    if (!ballast_.empty()) save.to.write(ballast_);
    const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (waits_to_save && save.to.waiting_bytes() > 0 && !has_waited_in_vain) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      has_waited_in_vain = std::chrono::steady_clock::now() > latest;
    }
    save.to.finish();
    writers_.push_back(save.to);
  }
  void on(LoadState& load) {
    if (load.step == LoadState::Step::begin) {
      events.clear();
      text_.clear();
      has_begun_to_load = true;
      if (pauses_to_load) is_paused = true;
    }
    loaded_bytes += load.bytes.size();
    if (load.step == LoadState::Step::end) applied = load.position;
    for (const std::byte byte : load.bytes) {
      if (byte == std::byte{7}) continue;
      if (byte == std::byte{}) events.push_back(std::exchange(text_, {}));
      if (byte != std::byte{}) text_ += static_cast<char>(byte);
    }
  }
  void on(StateEnded& end) { ended = end.cause; }

  const std::vector<std::byte> ballast_;
  std::string text_;
  std::vector<StateWriter> writers_;
  std::atomic<bool> is_ending_ = false, is_paused = false, has_paused = false;
  std::thread thread_;
};

ReplicatedStateOptions options_for(std::size_t first, std::size_t least = 0) {
  return {.number = GroupNumber{5},
          .first_replicas = first,
          .least_replicas = least,
          .most_waiting_bytes = 4 << 20};
}

/// Replicas, in the order in which they have joined the view.
struct Replicas {
  explicit Replicas(std::size_t count, std::size_t least = 0, std::size_t ballast = 0)
      : options(options_for(count, least)), ballast_(ballast) {
    for (std::size_t i = 0; i < count; ++i) add();
    for (const auto& replica : all)
      BOOST_TEST_REQUIRE(replica->is_complete(static_cast<std::uint32_t>(count)));
  }
  Replica& add() { return *all.emplace_back(std::make_unique<Replica>(store, options, ballast_)); }
  Replica& operator[](std::size_t i) { return *all[i]; }
  Replica& main() {
    for (const auto& replica : all) {
      bool is_main = false;
      replica->told.tell([&] { is_main = replica->status.is_main; });
      if (is_main) return *replica;
    }
    BOOST_FAIL("there is no main");
    return *all.front();
  }

  OneStore store;
  const ReplicatedStateOptions options;
  std::vector<std::unique_ptr<Replica>> all;

 private:
  const std::size_t ballast_;
};

void check_alike(Replicas& replicas, std::size_t count) {
  for (const auto& replica : replicas.all) BOOST_TEST_REQUIRE(replica->has(count));
  for (const auto& replica : replicas.all) {
    BOOST_TEST((replica->events == replicas[0].events));
    BOOST_TEST(!replica->went_back);
    BOOST_TEST((std::set(replica->events.begin(), replica->events.end()).size() == count));
  }
}

/// Waits until the replica holds its lease as the main.
bool comes_to_answer(const Replica& replica) {
  const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!replica.state->may_answer(~std::uint64_t{}) && std::chrono::steady_clock::now() < latest)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return replica.state->may_answer(~std::uint64_t{});
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_replica_submits_and_all_get_the_same_order) {
  Replicas replicas(3);
  constexpr std::uint64_t kEvents = 500;
  for (std::uint64_t i = 1; i <= kEvents; ++i)
    for (std::size_t r = 0; r < 3; ++r)
      BOOST_TEST_REQUIRE(replicas[r].submit(std::to_string(r) + ":" + std::to_string(i)) == i);
  for (const auto& replica : replicas.all) BOOST_TEST(replica->has_answered(kEvents));
  check_alike(replicas, 3 * kEvents);
  BOOST_TEST(comes_to_answer(replicas.main()));
  for (const auto& replica : replicas.all)
    if (replica.get() != &replicas.main()) BOOST_TEST(!replica->state->may_answer(~std::uint64_t{}));
}

BOOST_AUTO_TEST_CASE(an_event_may_be_as_long_as_the_limit) {
  Replicas replicas(2);
  const std::string longest(ReplicatedState::kMostEventBytes, 'x');
  for (const auto& replica : replicas.all) {
    replica->submit(longest + "");
    BOOST_TEST(replica->has_answered(1));
  }
  for (const auto& replica : replicas.all) {
    BOOST_TEST(replica->has(2));
    BOOST_TEST((replica->events == std::vector{longest, longest}));
  }
  BOOST_TEST(failed_with(replicas[0].state->submit(std::vector<std::byte>(longest.size() + 1)),
                         Errc::invalid_argument));
}

BOOST_AUTO_TEST_CASE(who_comes_later_gets_the_state_while_the_others_go_on) {
  constexpr std::size_t kBallast = 8 << 20;
  Replicas replicas(2, 1, kBallast);
  std::uint64_t count = 0;
  for (; count < 100; ++count) replicas[0].submit("a" + std::to_string(count));
  BOOST_TEST(replicas[0].has_answered(count));
  Replica& late = replicas.add();
  const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (late.loaded_bytes < kBallast && std::chrono::steady_clock::now() < latest) {
    replicas[0].submit("a" + std::to_string(count++));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  BOOST_TEST_REQUIRE(late.loaded_bytes >= kBallast,
                     late.loaded_bytes << " bytes were loaded, " << replicas[0].saved + replicas[1].saved
                                       << " transfers, " << count << " events");
  BOOST_TEST(late.is_complete(3));
  BOOST_TEST(late.submit("late") == 1U);
  BOOST_TEST(late.has_answered(1));
  check_alike(replicas, count + 1);
  BOOST_TEST(replicas.main().saved == 0U);  // The other one has sent the state.
  BOOST_TEST(late.loaded_bytes > kBallast);
}

BOOST_AUTO_TEST_CASE(the_others_go_on_when_the_main_is_gone_and_lose_nothing) {
  Replicas replicas(3);
  std::uint64_t number = 0;
  for (; number < 200; ++number) replicas[2].submit("b" + std::to_string(number));
  Replica* const first = &replicas.main();
  std::erase_if(replicas.all, [&](const auto& replica) { return replica.get() == first; });
  for (; number < 400; ++number) replicas.all.back()->submit("b" + std::to_string(number));
  BOOST_TEST(replicas.all.back()->has_answered(number));
  check_alike(replicas, number);
  Replica& main = replicas.main();
  BOOST_TEST(comes_to_answer(main));
}

BOOST_AUTO_TEST_CASE(nothing_becomes_stable_with_too_few_replicas) {
  Replicas replicas(2, 2);
  replicas[0].submit("one");
  BOOST_TEST(replicas[0].has_answered(1));
  replicas.all.pop_back();
  BOOST_TEST(replicas[0].is_complete(1));
  replicas[0].submit("two");
  BOOST_TEST(replicas[0].has(2));
  BOOST_TEST(replicas[0].answered == 1U);
  BOOST_TEST(!replicas[0].state->may_answer(~std::uint64_t{}));
  replicas.add();
  BOOST_TEST(replicas[0].has_answered(2));
  check_alike(replicas, 2);
}

BOOST_AUTO_TEST_CASE(the_main_answers_no_read_before_it_has_applied_what_others_have_answered) {
  Replicas replicas(3);
  Replica& main = replicas.main();
  BOOST_TEST(comes_to_answer(main));
  Replica& other = main.process.id() == replicas[0].process.id() ? replicas[1] : replicas[0];
  main.pause();
  other.submit("new");
  BOOST_TEST(other.has_answered(1));
  BOOST_TEST(!main.state->may_answer(main.applied));
  main.go_on();
  BOOST_TEST(main.has(1));
  BOOST_TEST(main.state->may_answer(main.applied));
}

BOOST_AUTO_TEST_CASE(the_main_answers_no_read_before_its_application_has_loaded_the_state) {
  Replicas replicas(1, 1);
  replicas[0].submit("one");
  BOOST_TEST(replicas[0].has_answered(1));
  Replica& late = replicas.add();
  late.pauses_to_load = true;
  BOOST_TEST(replicas[0].is_complete(2));
  replicas.all.erase(replicas.all.begin());
  BOOST_TEST(comes_to_answer(late));
  BOOST_TEST(late.events.empty());
  BOOST_TEST(!late.state->may_answer(late.applied));
  late.go_on();
  BOOST_TEST(late.told.wait([&] { return late.applied > 0; }));
  BOOST_TEST(late.events.size() == 1U);
  BOOST_TEST(late.state->may_answer(late.applied));
}

BOOST_AUTO_TEST_CASE(who_saves_the_state_for_a_replica_that_is_gone_does_not_wait_for_it) {
  Replicas replicas(2, 1, 8 << 20);
  Replica& main = replicas.main();
  Replica& donor = &replicas[0] == &main ? replicas[1] : replicas[0];
  main.submit("one");
  BOOST_TEST(donor.has(1));
  donor.waits_to_save = true;
  donor.pause();
  Replica& late = replicas.add();
  BOOST_TEST(late.told.wait([&] { return late.has_begun_to_load.load(); }));
  replicas.all.pop_back();
  main.submit("two");  // It becomes stable only in the next epoch.
  BOOST_TEST(main.has_answered(2));
  donor.go_on();
  BOOST_TEST(donor.has(2));
  BOOST_TEST(!donor.has_waited_in_vain);
}

BOOST_AUTO_TEST_CASE(a_replica_with_too_much_to_apply_goes_on_after_the_death_of_the_main) {
  Replicas replicas(3);
  Replica* const main = &replicas.main();
  Replica& slow = replicas.all.back().get() == main ? replicas[0] : *replicas.all.back();
  slow.pause();
  const std::string large(400'000, 'x');
  for (int i = 0; i < 30; ++i) main->submit(large + std::to_string(i));
  BOOST_TEST(main->has_answered(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // The slow replica has no room any more.
  BOOST_TEST(main->answered < 30);
  std::erase_if(replicas.all, [&](const auto& replica) { return replica.get() == main; });
  slow.go_on();
  slow.submit("after");
  BOOST_TEST(slow.has_answered(1));
  BOOST_TEST((replicas[0].events == replicas[1].events));
}

BOOST_AUTO_TEST_CASE(a_replica_gets_the_state_in_another_transfer_if_the_first_one_does_not_begin) {
  Replicas replicas(2, 1);
  replicas[0].submit("one");
  BOOST_TEST(replicas[0].has_answered(1));
  for (const auto& replica : replicas.all) replica->drops_writers = true;
  Replica& late = replicas.add();
  late.pause();
  const auto saved = [&] { return replicas[0].saved + replicas[1].saved; };
  while (saved() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  for (const auto& replica : replicas.all) replica->drops_writers = false;
  late.go_on();
  BOOST_TEST(late.is_complete(3));
  check_alike(replicas, 1);
}

BOOST_AUTO_TEST_CASE(a_lost_state_goes_on_when_the_application_decides_so) {
  Replicas replicas(1, 1);
  replicas[0].submit("lost");
  BOOST_TEST(replicas[0].has_answered(1));
  replicas[0].drops_writers = true;
  Replica& late = replicas.add();
  BOOST_TEST(failed_with(late.state->begin_anew(), Errc::invalid_argument));
  while (!replicas[0].told.wait([&] { return replicas[0].saved > 0; })) {
  }
  replicas.all.erase(replicas.all.begin());
  BOOST_TEST(late.told.wait([&] { return late.status.is_main && late.status.is_lost; }));
  BOOST_TEST(late.state->begin_anew().has_value());
  BOOST_TEST(late.is_complete(1));
  late.submit("new");
  BOOST_TEST(late.has_answered(1));
  replicas.add();
  check_alike(replicas, 1);
}

BOOST_AUTO_TEST_CASE(a_replica_that_gets_a_wrong_message_leaves) {
  OneStore store;
  Process other(store, "a faulty member", kLease);
  BOOST_TEST_REQUIRE(other.sees(1));
  // The older member is the root of the group. It sends something that no replica sends.
  MemberGroupOptions options;
  options.group.block_bytes = kUsualBlockBytes;
  options.first_members = 2;
  std::atomic<std::size_t> members = 0;
  MemberGroupCallbacks on;
  on.continued = [&](const GroupView& view) { members = view.members.size(); };
  const std::vector<std::byte> wrong(10, std::byte{0xFF});
  const auto group = other.membership->create_group(GroupNumber{5}, options, on);
  BOOST_TEST_REQUIRE(group.has_value());
  Replica replica(store, options_for(2));
  BOOST_TEST_REQUIRE(other.told.wait([&] { return other.views.back().members.size() == 2; }));
  while (!(*group)->send(wrong)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  BOOST_TEST(replica.told.wait([&] { return replica.ended.has_value(); }));
  BOOST_TEST((replica.ended->code == Errc::protocol_error));
  BOOST_TEST(failed_with(replica.state->submit({}), Errc::cancelled));
  // It does not count any more.
  const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (members != 1 && std::chrono::steady_clock::now() < latest)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  BOOST_TEST(members == 1U);
}

BOOST_AUTO_TEST_CASE(mistakes_have_names) {
  OneStore store;
  Process process(store, "a process", kLease);
  BOOST_TEST(
      failed_with(ReplicatedState::open(*process.membership, {.number = GroupNumber{std::uint64_t{1} << 31}}),
                  Errc::invalid_argument));
  BOOST_TEST(
      failed_with(ReplicatedState::open(*process.membership, {.first_replicas = 0}), Errc::invalid_argument));
  BOOST_TEST(failed_with(ReplicatedState::open(*process.membership, {.most_waiting_bytes = 1000}),
                         Errc::invalid_argument));
  const auto one = ReplicatedState::open(*process.membership, {});
  BOOST_TEST(one.has_value());
  BOOST_TEST(failed_with(ReplicatedState::open(*process.membership, {}), Errc::already_exists));
  process.membership.reset();
  while (const auto change = (*one)->take(seconds(30)))
    if (std::holds_alternative<StateEnded>(*change)) break;
  BOOST_TEST(failed_with((*one)->submit({}), Errc::cancelled));
}

BOOST_AUTO_TEST_SUITE_END()

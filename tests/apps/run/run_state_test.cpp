#include "apps/run/run_state.hpp"

#include <rapidcheck.h>
#include <signal.h>
#include <boost/test/unit_test.hpp>

#include <map>
#include <random>
#include <set>

#include "tests/lib/replica/generators.hpp"

BOOST_AUTO_TEST_SUITE(run_state_test)

using namespace rdmc;
using namespace rdmc::run;
using replica::Layout;
using replica::ProcessId;

namespace {

/// Performs the actions of a RunState as a perfect driver would, and records them.
struct Driver {
  explicit Driver(Layout its_layout, bool respawns = false, bool ignores_content = false)
      : layout(its_layout), state(std::move(its_layout), respawns, ignores_content) {}

  void join(std::uint32_t process) {
    state.joined({.run = {},
                  .process = ProcessId{process},
                  .address = Address::ipv4(127, 0, 0, 1, static_cast<std::uint16_t>(1000 + process))});
    perform();
  }
  void join_all() {
    for (std::uint32_t i = 0; i < layout.processes(); ++i) join(i);
  }
  void done(std::uint32_t process) {
    state.done(ProcessId{process});
    perform();
  }
  bool are_all_done() const {
    return std::ranges::any_of(
        events, [](const auto& one) { return std::holds_alternative<replica::AllDone>(one.event); });
  }
  void finish(std::uint32_t process) {
    state.finished(ProcessId{process}, {.messages = 1});
    perform();
  }
  void exit(std::uint32_t process, int code) {
    state.exited(ProcessId{process}, {false, code});
    perform();
  }
  void kill(std::uint32_t process) {
    state.exited(ProcessId{process}, {true, SIGKILL});
    perform();
  }
  void perform() {
    for (Action& action : state.take_actions()) {
      if (auto* const start = std::get_if<StartProcess>(&action))
        started.emplace(start->process, start->started);
      if (auto* const publish = std::get_if<Publish>(&action)) events.push_back(publish->event);
      if (auto* const signal = std::get_if<SignalProcess>(&action))
        signals.insert({signal->process, signal->signal});
      if (auto* const death = std::get_if<ReportDeath>(&action)) deaths.emplace(death->process, death->cause);
      if (auto* const one = std::get_if<ReportDifference>(&action)) differences.push_back(one->difference);
      if (auto* const end = std::get_if<ReportEnd>(&action)) reason += end->reason;
      if (auto* const arm = std::get_if<ArmKill>(&action)) patience = arm->after;
      if (auto* const arm = std::get_if<ArmCutOff>(&action)) cut_offs.insert(arm->process);
      if (auto* const request = std::get_if<RequestFork>(&action)) requests.push_back(*request);
      if (auto* const noted = std::get_if<NoteFork>(&action)) noted_forks.push_back(*noted);
      if (auto* const adopted = std::get_if<AdoptProcess>(&action)) adoptions.push_back(*adopted);
      if (auto* const none = std::get_if<ReportNoRespawn>(&action)) reason += none->reason;
    }
  }

  /// The steps of the recovery that was requested last.
  void publish_recovery() {
    state.fork_ready(requests.back().parent, requests.back().request);
    perform();
  }
  void fork() {
    state.forked(requests.back().parent, requests.back().request);
    perform();
  }
  void join_again() {
    state.joined({.run = {},
                  .process = requests.back().process,
                  .pid = 99,
                  .address = Address::ipv4(127, 0, 0, 1, 999),
                  .recovery = last_recovery(),
                  .last_event = last_recovery()});
    perform();
  }
  replica::EventNumber last_recovery() const {
    replica::EventNumber last{};
    for (const auto& one : events)
      if (std::holds_alternative<replica::Recovering>(one.event)) last = one.number;
    return last;
  }
  template <typename Event>
  std::ptrdiff_t count() const {
    return std::ranges::count_if(events,
                                 [](const auto& one) { return std::holds_alternative<Event>(one.event); });
  }

  Layout layout;
  RunState state;
  std::multimap<ProcessId, replica::Started> started;
  std::vector<replica::NumberedEvent> events;
  std::set<std::pair<ProcessId, int>> signals;
  std::multimap<ProcessId, std::string> deaths;
  std::set<ProcessId> cut_offs;
  std::vector<replica::SendDifference> differences;
  std::vector<RequestFork> requests;
  std::vector<NoteFork> noted_forks;
  std::vector<AdoptProcess> adoptions;
  std::string reason;
  Duration patience{};
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_run_starts_when_each_process_has_joined_or_died) {
  Driver run(*Layout::of({2, 2}));
  run.join(0);
  run.join(2);
  run.kill(1);
  BOOST_TEST(run.started.empty());
  run.join(3);
  BOOST_TEST_REQUIRE(run.started.size() == 3u);
  const replica::Started& started = run.started.begin()->second;
  BOOST_TEST(value_of(started.number) == 1u);  // The death of 0.1 was the first event.
  BOOST_TEST(!started.addresses[1].has_value());
  BOOST_TEST(started.addresses[3]->port == 1003);
}

BOOST_AUTO_TEST_CASE(a_death_is_an_event_for_the_others_and_does_not_change_the_exit_code) {
  Driver run(*Layout::of({2, 1}));
  run.join_all();
  run.kill(0);
  const replica::NumberedEvent wanted{replica::EventNumber{1},
                                      replica::Died{ProcessId{0}, "killed by signal 9 (SIGKILL)"}};
  BOOST_TEST_REQUIRE(run.events.size() == 1u);
  BOOST_TEST((run.events[0] == wanted));
  run.finish(1);
  run.finish(2);
  run.exit(1, 3);
  run.exit(2, 1);
  BOOST_TEST(run.state.is_over());
  BOOST_TEST(run.state.exit_code() == 3);
  BOOST_TEST(run.state.deaths() == 1u);
  BOOST_TEST(run.state.counters().messages == 2u);
}

BOOST_AUTO_TEST_CASE(the_program_has_ended_when_it_has_ended_at_each_process_that_is_not_dead) {
  Driver run(*Layout::of({2, 2}));
  run.join_all();
  run.done(0);
  run.done(3);
  run.done(1);
  BOOST_TEST(!run.are_all_done());
  run.kill(2);
  BOOST_TEST(run.are_all_done());
  BOOST_TEST(std::holds_alternative<replica::Died>(run.events.front().event));
  run.kill(0);
  run.finish(1);
  BOOST_TEST(run.events.size() == 3u);  // The others need no second AllDone.
}

BOOST_AUTO_TEST_CASE(a_death_after_an_interrupt_does_not_keep_the_others_from_finishing) {
  Driver run(*Layout::of({2, 2}));
  run.join_all();
  run.state.interrupted(SIGINT);
  for (const std::uint32_t process : {0U, 1U, 2U}) run.done(process);
  BOOST_TEST(!run.are_all_done());
  run.kill(3);
  BOOST_TEST(run.are_all_done());
}

BOOST_AUTO_TEST_CASE(the_program_has_not_ended_before_it_has_begun) {
  Driver run(*Layout::of({2, 1}));
  run.join(0);
  run.done(0);
  run.kill(1);
  BOOST_TEST(!run.are_all_done());
  run.join(2);
  BOOST_TEST(!run.are_all_done());
  run.finish(2);  // A process that has finished is done.
  BOOST_TEST(run.are_all_done());
}

BOOST_AUTO_TEST_CASE(a_rank_without_replicas_ends_the_run_by_name) {
  Driver run(*Layout::of({1, 2}));
  run.join_all();
  run.kill(1);
  BOOST_TEST(run.reason.empty());
  run.exit(2, 0);
  BOOST_TEST(run.deaths.find(ProcessId{2})->second == "exited without finishing");
  BOOST_TEST(run.reason == "rank 1 is lost, because all its replicas have died");
  BOOST_TEST(run.signals.contains({ProcessId{0}, SIGTERM}));
  BOOST_TEST((run.patience <= seconds(1)));
  BOOST_TEST((std::get<replica::Aborted>(run.events.back().event) == replica::Aborted{kLost}));
  run.state.kill();
  run.perform();
  BOOST_TEST(run.signals.contains({ProcessId{0}, SIGKILL}));
  run.kill(0);
  BOOST_TEST(run.state.is_over());
  BOOST_TEST(run.state.exit_code() == kLost);
  BOOST_TEST(run.state.deaths() == 2u);  // rdmc_run itself has ended the last one.
}

BOOST_AUTO_TEST_CASE(a_program_that_never_joins_only_has_an_exit_code) {
  Driver run(*Layout::of({2, 2}));
  run.exit(0, 0);
  run.exit(1, 7);
  run.kill(2);
  run.exit(3, 2);
  BOOST_TEST(run.state.is_over());
  BOOST_TEST(run.state.exit_code() == 7);
  BOOST_TEST(run.state.deaths() == 1u);
  BOOST_TEST(run.reason.empty());
}

BOOST_AUTO_TEST_CASE(a_process_that_exits_before_others_join_has_died) {
  Driver run(*Layout::of({2, 1}));
  run.exit(0, 0);
  BOOST_TEST(run.deaths.empty());
  run.join(1);
  BOOST_TEST(run.deaths.find(ProcessId{0})->second == "exited without joining");
  run.join(2);
  BOOST_TEST(run.started.size() == 2u);
}

BOOST_AUTO_TEST_CASE(an_abort_ends_the_run_with_its_code) {
  Driver run(*Layout::of({2, 1}));
  run.join_all();
  run.state.aborted(ProcessId{1}, 42);
  run.state.aborted(ProcessId{2}, 43);
  run.perform();
  BOOST_TEST(run.reason == "replica 0.1 has aborted the run with exit code 42");
  for (std::uint32_t i = 0; i < 3; ++i) run.exit(i, 99);
  BOOST_TEST(run.state.exit_code() == 42);
  BOOST_TEST(run.state.deaths() == 0u);
}

BOOST_AUTO_TEST_CASE(a_message_that_replicas_have_not_sent_alike_ends_the_run) {
  replica::SendDifference in_content{
      .source = Rank{1},
      .channel = {.context = replica::ContextId{0}, .rank = Rank{0}, .tag = 3},
      .sequence = 7,
      .versions = {{.replica = 0, .sent = replica::SentMessage{.bytes = 8, .digest = 1}},
                   {.replica = 1, .sent = replica::SentMessage{.bytes = 8, .digest = 2}}}};
  for (const bool ignores_content : {false, true}) {
    Driver driver(*Layout::uniform(2, 2), false, ignores_content);
    driver.join_all();
    driver.state.differed(ProcessId{0}, in_content);  // This process is not a replica of rank 1.
    driver.perform();
    BOOST_TEST(driver.differences.empty());
    // Each replica of the rank finds the difference.
    for (const std::uint32_t process : {2u, 3u}) driver.state.differed(ProcessId{process}, in_content);
    driver.perform();
    BOOST_REQUIRE_EQUAL(driver.differences.size(), 1U);
    BOOST_TEST((driver.differences[0] == in_content));
    BOOST_TEST(driver.state.differences() == 1U);
    BOOST_TEST(driver.count<replica::Aborted>() == (ignores_content ? 0 : 1));
    if (!ignores_content) BOOST_TEST(driver.state.exit_code() == kDiffers);
    auto in_length = in_content;
    in_length.sequence = 8;
    in_length.versions[1].sent->bytes = 9;
    driver.state.differed(ProcessId{2}, in_length);
    driver.perform();
    BOOST_TEST(driver.state.exit_code() == kDiffers);
  }
}

BOOST_AUTO_TEST_CASE(an_interrupt_is_passed_on_and_kills_at_once_when_it_comes_again) {
  Driver run(*Layout::of({1, 1}));
  run.join_all();
  run.state.interrupted(SIGINT);
  run.perform();
  BOOST_TEST(run.signals.contains({ProcessId{1}, SIGINT}));
  BOOST_TEST((run.patience == seconds(5)));
  BOOST_TEST(run.events.empty());
  run.exit(0, 0);
  run.state.interrupted(SIGINT);
  run.perform();
  BOOST_TEST(run.signals.contains({ProcessId{1}, SIGKILL}));
  run.kill(1);
  BOOST_TEST(run.state.exit_code() == kInterrupted);
}

BOOST_AUTO_TEST_CASE(a_process_without_connection_gets_time_to_exit_and_is_then_killed) {
  Driver run(*Layout::of({2}));
  run.join_all();
  run.state.link_lost(ProcessId{0}, {Errc::protocol_error, "sent nonsense"});
  run.perform();
  BOOST_TEST(run.cut_offs.contains(ProcessId{0}));
  BOOST_TEST(run.signals.empty());
  run.state.cut_off(ProcessId{0});
  run.perform();
  BOOST_TEST(run.signals.contains({ProcessId{0}, SIGKILL}));
  run.kill(0);
  BOOST_TEST(
      run.deaths.find(ProcessId{0})->second.ends_with("its connection to rdmc_run had ended: sent nonsense"));
  run.finish(1);
  run.state.link_lost(ProcessId{1}, {Errc::cancelled, "closed"});
  run.perform();
  BOOST_TEST(run.cut_offs.size() == 1u);
}

BOOST_AUTO_TEST_CASE(the_rules_hold_whatever_happens_in_whatever_order) {
  BOOST_TEST(rc::check("random runs", [] {
    Driver run(*rdmc::testing::any_layout());
    const std::uint32_t count = run.layout.processes();
    std::vector<int> phase(count);  // 0: runs, 1: joined, 2: finished, 3: ended
    std::set<ProcessId> died;
    int highest = 0;
    bool joins = false;
    const bool is_job = *rc::gen::arbitrary<bool>();
    std::mt19937 random(*rc::gen::arbitrary<std::uint32_t>());
    while (!run.state.is_over() && run.reason.empty()) {
      const auto i = static_cast<std::uint32_t>(random() % count);
      if (phase[i] == 3) {
        // A process that is dead can no longer do anything.
        run.join(i);
        run.finish(i);
        continue;
      }
      const auto dice = random() % 12;
      const int what = dice == 0 ? 2 : dice < 4 || !is_job ? 1 : 0;
      if (what == 0 && phase[i] == 0) {
        phase[i] = 1;
        joins = true;
        run.join(i);
      } else if (what == 0 && phase[i] == 1) {
        phase[i] = 2;
        run.finish(i);
      } else if (what == 1 && (phase[i] == 2 || !is_job)) {
        const int code = static_cast<int>(random() % 4);
        phase[i] = 3;
        highest = std::max(highest, code);
        run.exit(i, code);
      } else if (what == 2) {
        phase[i] = 3;
        died.insert(ProcessId{i});
        run.kill(i);
      }
    }
    std::set<ProcessId> reported;
    for (const auto& [process, cause] : run.deaths) RC_ASSERT(reported.insert(process).second);
    RC_ASSERT((reported == died));
    for (std::size_t i = 0; i < run.events.size(); ++i) RC_ASSERT(value_of(run.events[i].number) == i + 1);
    for (const auto& [process, started] : run.started) {
      RC_ASSERT(run.started.count(process) == 1u);
      RC_ASSERT(started.addresses.size() == count);
    }
    bool is_lost = false;
    for (std::uint32_t rank = 0; rank < run.layout.ranks(); ++rank) {
      bool is_dead = true;
      for (std::uint32_t i = 0; i < run.layout.degree(Rank{rank}); ++i)
        is_dead = is_dead && died.contains(run.layout.process({Rank{rank}, i}));
      is_lost = is_lost || is_dead;
    }
    RC_ASSERT(is_lost == !run.reason.empty());
    RC_ASSERT(run.state.exit_code() == (is_lost ? kLost : highest));
    RC_ASSERT(run.started.empty() || joins);
  }));
}

BOOST_AUTO_TEST_CASE(a_dead_replica_is_replaced_by_a_fork_of_the_next_living_one) {
  Driver driver(*Layout::uniform(2, 3), true);
  driver.join_all();
  driver.kill(1);
  BOOST_TEST_REQUIRE(driver.requests.size() == 1U);
  BOOST_TEST((driver.requests[0].process == ProcessId{1} && driver.requests[0].parent == ProcessId{2}));
  BOOST_TEST(driver.count<replica::Recovering>() == 0);
  driver.publish_recovery();
  BOOST_TEST(driver.count<replica::Recovering>() == 1);
  driver.fork();
  driver.join_again();
  BOOST_TEST_REQUIRE(driver.adoptions.size() == 1U);
  BOOST_TEST(driver.count<replica::Joined>() == 1);
  BOOST_TEST((driver.state.respawns() == 1 && driver.state.alive() == 6 && driver.state.deaths() == 1));
  // It counts like the others: the rank is lost only when it is dead, too.
  driver.kill(0);
  driver.kill(2);
  BOOST_TEST(driver.reason.empty());
  driver.kill(1);
  BOOST_TEST(driver.state.exit_code() == kLost);
}

BOOST_AUTO_TEST_CASE(a_new_process_gets_the_events_that_its_parent_did_not_know) {
  Driver driver(*Layout::uniform(2, 2), true);
  driver.join_all();
  driver.kill(0);
  driver.publish_recovery();
  driver.fork();
  driver.kill(3);
  driver.requests.push_back(driver.requests[0]);
  driver.join_again();
  BOOST_TEST_REQUIRE(driver.adoptions.size() == 1U);
  const AdoptProcess& adopted = driver.adoptions[0];
  BOOST_TEST(value_of(adopted.started.number) == value_of(driver.last_recovery()));
  BOOST_TEST_REQUIRE(adopted.events.size() == 1U);
  BOOST_TEST(std::holds_alternative<replica::Died>(adopted.events[0].event));
}

BOOST_AUTO_TEST_CASE(a_new_process_may_join_before_its_parent_says_that_it_was_forked) {
  Driver driver(*Layout::uniform(1, 2), true);
  driver.join_all();
  driver.kill(0);
  driver.publish_recovery();
  driver.join_again();
  BOOST_TEST(driver.adoptions.empty());
  driver.fork();
  BOOST_TEST(driver.adoptions.size() == 1U);
}

BOOST_AUTO_TEST_CASE(the_death_of_the_parent_ends_the_recovery_and_another_one_begins) {
  Driver driver(*Layout::uniform(1, 3), true);
  driver.join_all();
  driver.kill(0);
  driver.publish_recovery();
  driver.fork();
  driver.kill(1);
  // Those who count the new process as living learn that it is dead.
  BOOST_TEST(driver.count<replica::Died>() == 3);
  BOOST_TEST_REQUIRE(driver.requests.size() == 2U);
  BOOST_TEST((driver.requests[1].parent == ProcessId{2}));
  driver.join_again();  // The process of the first attempt comes too late.
  BOOST_TEST(driver.adoptions.empty());
  driver.kill(2);
  BOOST_TEST(driver.state.exit_code() == kLost);
}

BOOST_AUTO_TEST_CASE(
    a_parent_that_was_forked_goes_on_though_the_program_has_ended_or_the_attempt_has_failed) {
  const auto check = [](Driver& driver) {
    BOOST_TEST(driver.noted_forks.empty());
    driver.fork();
    BOOST_TEST_REQUIRE(driver.noted_forks.size() == 1U);
    BOOST_TEST((driver.noted_forks[0].parent == ProcessId{1}));
    BOOST_TEST((driver.noted_forks[0].request == driver.requests[0].request));
    driver.join_again();
    BOOST_TEST(driver.adoptions.empty());
  };
  Driver ended(*Layout::uniform(1, 2), true);
  ended.join_all();
  ended.kill(0);
  ended.publish_recovery();
  ended.done(1);
  BOOST_TEST(ended.are_all_done());
  check(ended);
  Driver failed(*Layout::uniform(1, 2), true);
  failed.join_all();
  failed.kill(0);
  failed.publish_recovery();
  failed.state.fork_failed(ProcessId{0}, failed.requests[0].request);
  check(failed);
}

BOOST_AUTO_TEST_CASE(a_refusal_for_good_ends_all_recoveries_and_is_reported_once) {
  Driver driver(*Layout::uniform(2, 2), true);
  driver.join_all();
  driver.kill(0);
  driver.kill(2);
  BOOST_TEST_REQUIRE(driver.requests.size() == 2U);
  for (const RequestFork& request : std::vector(driver.requests)) {
    driver.state.fork_refused(request.parent, {request.request, "it has threads", true});
    driver.perform();
  }
  BOOST_TEST(driver.requests.size() == 2U);
  BOOST_TEST(driver.reason == "replica 0.1: it has threads");
  BOOST_TEST(driver.count<replica::Recovering>() == 0);
}

BOOST_AUTO_TEST_SUITE_END()

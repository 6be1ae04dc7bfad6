// The link between processes and rdmc_run, with real connections. Each process has its own Context in this
// process. The tests wait for what happens; only a failing test reaches the time limit.
#include "lib/replica/run_link.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include "lib/replica/run_server.hpp"
#include "tests/lib/replica/generators.hpp"

BOOST_AUTO_TEST_SUITE(run_link_test)

using namespace rdmc;
using namespace rdmc::replica;
using rdmc::testing::failed_with;

namespace {

constexpr Duration kPatience = seconds(30);
const std::string kRun(32, 'a');

/// Counts calls, and waits for them.
class Bell {
 public:
  void ring() {
    const std::lock_guard lock(mutex_);
    ++rings_;
    changed_.notify_all();
  }
  template <typename Condition>
  bool wait(Condition is_done) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::nanoseconds(kPatience.ns), is_done);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t rings_ = 0;
};

/// An rdmc_run that starts the run when all processes have joined, and records what they tell it.
struct Launcher {
  explicit Launcher(const Layout& its_layout) : layout(its_layout) {
    RunServer::Handlers handlers;
    handlers.joined = [this](const Join& join) {
      {
        const std::lock_guard lock(mutex);
        joins[join.process] = join;
      }
      bell.ring();
    };
    handlers.done = [this](ProcessId process) {
      {
        const std::lock_guard lock(mutex);
        done.insert(process);
      }
      bell.ring();
    };
    handlers.finished = [this](ProcessId process, const RunCounters& counters) {
      {
        const std::lock_guard lock(mutex);
        finished[process] = counters;
      }
      bell.ring();
    };
    handlers.aborted = [this](ProcessId, int code) {
      server->send({EventNumber{++last}, Aborted{code}});
      {
        const std::lock_guard lock(mutex);
        aborted = code;
      }
      bell.ring();
    };
    handlers.lost = [this](ProcessId process, const Error&) {
      {
        const std::lock_guard lock(mutex);
        lost.push_back(process);
      }
      bell.ring();
    };
    auto opened =
        RunServer::open(layout, kRun, Address::ipv4(127, 0, 0, 1, 0), key, context, std::move(handlers));
    BOOST_REQUIRE_MESSAGE(opened.has_value(), opened.error().what);
    server = std::move(*opened);
  }

  /// Waits until the given number of processes has joined, and starts all of them.
  void start(std::size_t count) {
    BOOST_TEST_REQUIRE(bell.wait([&] {
      const std::lock_guard lock(mutex);
      return joins.size() == count;
    }));
    for (const auto& [process, join] : joins) server->start(process, started());
  }
  Started started() {
    Started all{EventNumber{last}, std::vector<std::optional<Address>>(layout.processes())};
    for (const auto& [process, join] : joins) all.addresses[value_of(process)] = join.address;
    return all;
  }

  Assignment assignment(ProcessId process) const {
    return {.layout = layout,
            .self = layout.replica(process),
            .protocol = "sdr",
            .options = {},
            .launcher = server->address(),
            .run = kRun,
            .key_descriptor = 0};
  }

  const Layout layout;
  const control::ClusterKey key = *control::ClusterKey::generate();
  peer::Context context;
  Bell bell;
  std::mutex mutex;
  std::map<ProcessId, Join> joins;
  std::set<ProcessId> done;
  std::map<ProcessId, RunCounters> finished;
  std::vector<ProcessId> lost;
  int aborted = 0;
  std::uint64_t last = 0;
  std::unique_ptr<RunServer> server;
};

/// A process of the run. Its rank's thread is a thread of the test.
struct Process {
  Process(const Assignment& assignment, const control::ClusterKey& key) {
    auto opened = RunLink::open(assignment, key, context, [this] { bell.ring(); });
    BOOST_REQUIRE_MESSAGE(opened.has_value(), opened.error().what);
    link = std::move(*opened);
  }
  Process(const Launcher& launcher, std::uint32_t number)
      : Process(launcher.assignment(ProcessId{number}), launcher.key) {
    address.port = static_cast<std::uint16_t>(1000 + number);
  }
  void begin_join() {
    thread = std::thread([this] { started = link->join(address, kPatience); });
  }
  /// Waits until there are `count` events in all.
  const std::deque<LinkEvent>& wait_for_events(std::size_t count) {
    BOOST_TEST(bell.wait([&] {
      for (LinkEvent& event : link->take_events()) events.push_back(std::move(event));
      return events.size() >= count;
    }));
    return events;
  }
  ~Process() {
    if (thread.joinable()) thread.join();
  }

  peer::Context context;
  Bell bell;
  std::unique_ptr<RunLink> link;
  Address address = Address::ipv4(127, 0, 0, 1, 1000);
  Result<Started> started = fail(Errc::timed_out, "did not run");
  std::deque<LinkEvent> events;
  std::thread thread;
};

/// A run with `count` processes that have all started.
struct Run {
  explicit Run(std::uint32_t count) : launcher(*Layout::of({count})) {
    for (std::uint32_t i = 0; i < count; ++i) processes.push_back(std::make_unique<Process>(launcher, i));
    for (auto& process : processes) process->begin_join();
    launcher.start(count);
    for (auto& process : processes) process->thread.join();
  }
  Launcher launcher;
  std::vector<std::unique_ptr<Process>> processes;
};

}  // namespace

BOOST_AUTO_TEST_CASE(all_processes_learn_the_addresses_of_all) {
  Run run(4);
  for (const auto& process : run.processes) {
    BOOST_REQUIRE_MESSAGE(process->started.has_value(), process->started.error().what);
    BOOST_TEST_REQUIRE(process->started->addresses.size() == 4u);
    for (std::size_t i = 0; i < 4; ++i) BOOST_TEST(process->started->addresses[i]->port == 1000 + i);
  }
}

BOOST_AUTO_TEST_CASE(all_processes_get_the_same_events_in_the_same_order) {
  Run run(3);
  const std::vector<RunEvent> sent{Died{ProcessId{0}, "one"},
                                   Joined{ProcessId{0}, Address::ipv4(1, 2, 3, 4, 5)},
                                   Died{ProcessId{2}, "two"},
                                   Recovering{ProcessId{2}, ProcessId{1}},
                                   AllDone{},
                                   Aborted{7}};
  for (const RunEvent& event : sent) run.launcher.server->send({EventNumber{++run.launcher.last}, event});
  for (const auto& process : run.processes) {
    const auto& events = process->wait_for_events(sent.size());
    BOOST_TEST_REQUIRE(events.size() == sent.size());
    for (std::size_t i = 0; i < sent.size(); ++i) {
      BOOST_TEST(value_of(events[i].number) == i + 1);
      std::visit(
          [&](const auto& event) {
            if constexpr (std::is_constructible_v<RunEvent, decltype(event)>)
              BOOST_TEST((RunEvent(event) == sent[i]));
            else
              BOOST_TEST(false, "it is an event of all processes");
          },
          events[i].what);
    }
    BOOST_TEST(!process->link->has_events());
    BOOST_TEST(process->link->take_events().empty());
  }
}

BOOST_AUTO_TEST_CASE(a_process_that_joins_later_begins_with_the_next_event) {
  Run run(2);
  run.launcher.server->send({EventNumber{++run.launcher.last}, Died{ProcessId{1}, "killed"}});
  run.processes[1].reset();
  run.launcher.server->forget(ProcessId{1});
  Process again(run.launcher, 1);
  again.address.port = 2000;
  again.begin_join();
  BOOST_TEST_REQUIRE(run.launcher.bell.wait([&] {
    const std::lock_guard lock(run.launcher.mutex);
    return run.launcher.joins[ProcessId{1}].address.port == 2000;
  }));
  run.launcher.server->send({EventNumber{++run.launcher.last}, Joined{ProcessId{1}, again.address}});
  run.launcher.server->start(ProcessId{1}, run.launcher.started());
  run.launcher.server->send({EventNumber{++run.launcher.last}, Died{ProcessId{0}, "killed"}});
  const auto& old_events = run.processes[0]->wait_for_events(3);
  BOOST_TEST(std::holds_alternative<Joined>(old_events[1].what));
  const auto& events = again.wait_for_events(1);
  BOOST_TEST(value_of(events[0].number) == 3u);
  again.thread.join();
  BOOST_TEST(value_of(again.started->number) == 2u);
}

BOOST_AUTO_TEST_CASE(a_process_tells_that_its_part_of_the_program_has_ended) {
  Run run(2);
  BOOST_TEST(run.processes[1]->link->done().has_value());
  BOOST_TEST(run.launcher.bell.wait([&] {
    const std::lock_guard lock(run.launcher.mutex);
    return run.launcher.done == std::set{ProcessId{1}};
  }));
}

BOOST_AUTO_TEST_CASE(finishing_tells_the_counters_and_waits_until_they_are_noted) {
  Run run(2);
  const RunCounters counters{1, 2, 3, 4};
  BOOST_TEST(run.processes[1]->link->finish(counters, kPatience).has_value());
  const std::lock_guard lock(run.launcher.mutex);
  BOOST_TEST((run.launcher.finished == std::map<ProcessId, RunCounters>{{ProcessId{1}, counters}}));
}

BOOST_AUTO_TEST_CASE(an_abort_reaches_all_processes_also_those_that_wait_for_the_start) {
  Launcher launcher(*Layout::of({2, 1}));
  Process waits(launcher, 0), aborts(launcher, 1);
  waits.begin_join();
  aborts.begin_join();
  BOOST_TEST_REQUIRE(launcher.bell.wait([&] {
    const std::lock_guard lock(launcher.mutex);
    return launcher.joins.size() == 2;
  }));
  aborts.link->abort(900, kPatience);
  waits.thread.join();
  aborts.thread.join();
  BOOST_TEST(failed_with(waits.started, Errc::cancelled));
  const std::lock_guard lock(launcher.mutex);
  BOOST_TEST(launcher.aborted == kMostAbortCode);
}

BOOST_AUTO_TEST_CASE(the_end_of_the_launcher_is_the_last_event) {
  Run run(2);
  run.launcher.server->send({EventNumber{1}, Died{ProcessId{1}, "killed"}});
  run.processes[0]->wait_for_events(1);
  run.launcher.server.reset();
  const auto& events = run.processes[0]->wait_for_events(2);
  BOOST_TEST(std::holds_alternative<LauncherLost>(events.back().what));
  BOOST_TEST(failed_with(run.processes[0]->link->finish({}, kPatience), Errc::peer_failed));
}

BOOST_AUTO_TEST_CASE(an_event_that_is_out_of_order_ends_the_link) {
  Run run(1);
  run.launcher.server->send({EventNumber{2}, Died{ProcessId{0}, "killed"}});
  const auto& events = run.processes[0]->wait_for_events(1);
  BOOST_TEST_REQUIRE(std::holds_alternative<LauncherLost>(events[0].what));
  BOOST_TEST((std::get<LauncherLost>(events[0].what).cause.code == Errc::protocol_error));
}

BOOST_AUTO_TEST_CASE(the_launcher_sees_the_end_of_a_process) {
  Run run(2);
  run.processes[1].reset();
  BOOST_TEST(run.launcher.bell.wait([&] {
    const std::lock_guard lock(run.launcher.mutex);
    return run.launcher.lost == std::vector{ProcessId{1}};
  }));
}

BOOST_AUTO_TEST_CASE(a_process_without_the_key_or_of_another_run_cannot_join) {
  Launcher launcher(*Layout::of({2}));
  Process without_key(launcher.assignment(ProcessId{0}), *control::ClusterKey::generate());
  without_key.begin_join();
  without_key.thread.join();
  BOOST_TEST(failed_with(without_key.started, Errc::authentication));
  Assignment other = launcher.assignment(ProcessId{0});
  other.run = std::string(32, 'b');
  Process of_other(other, launcher.key);
  of_other.begin_join();
  of_other.thread.join();
  BOOST_TEST(failed_with(of_other.started, Errc::not_found));
}

BOOST_AUTO_TEST_CASE(only_one_process_can_join_as_a_replica) {
  Run run(2);
  Process second(run.launcher, 1);
  second.begin_join();
  second.thread.join();
  BOOST_TEST(failed_with(second.started, Errc::already_exists));
}

BOOST_AUTO_TEST_CASE(joining_has_a_time_limit) {
  Launcher launcher(*Layout::of({2}));
  Process alone(launcher, 0);
  BOOST_TEST(failed_with(alone.link->join(alone.address, milliseconds(50)), Errc::timed_out));
}

BOOST_AUTO_TEST_CASE(the_key_comes_from_a_descriptor_that_programs_of_the_process_do_not_inherit) {
  const auto key = control::ClusterKey::generate();
  const Descriptor shared = *key->share();
  const int inherited = ::fcntl(shared.get(), F_DUPFD, 0);
  const auto taken = take_key(inherited);
  BOOST_TEST_REQUIRE(taken.has_value());
  BOOST_TEST(taken->text() == key->text());
  BOOST_TEST((::fcntl(inherited, F_GETFD) & FD_CLOEXEC) != 0);
  ::close(inherited);
  BOOST_TEST(failed_with(take_key(inherited), Errc::invalid_argument));
  int ends[2];
  BOOST_REQUIRE(::pipe(ends) == 0);
  ::close(ends[1]);
  BOOST_TEST(failed_with(take_key(ends[0]), Errc::invalid_argument));
  ::close(ends[0]);
}

BOOST_AUTO_TEST_SUITE_END()

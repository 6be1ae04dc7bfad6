// Tests queue pairs between real processes. Payload must be copied by each possible method. A killed peer
// must be noticed at once. A peer that is stopped for a moment must not be given up.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <functional>

#include "tests/dataplane/fabric/shm/shm_pair.hpp"

BOOST_AUTO_TEST_SUITE(shm_processes_test)

using namespace rdmc;
using namespace rdmc::fabric;
using testing::open_shm_fabric;

namespace {

constexpr std::size_t kBytes = 300'000;

/// Shared memory outside of the fabric. Through it the two processes exchange their blobs and other data.
struct Board {
  std::array<std::atomic<std::uint32_t>, 2> blob_bytes;
  std::array<std::array<std::byte, 128>, 2> blobs;
  std::atomic<std::uint64_t> address, key;
  std::atomic<std::uint32_t> stage;
};

/// One process's end of the connection.
struct End {
  End(Board& shared, std::size_t index) : board(shared), side(index) {
    queue_pair = std::move(*fabric->create_queue_pair({}));
    const auto blob = queue_pair->local_blob();
    std::ranges::copy(blob, board.blobs[side].begin());
    board.blob_bytes[side] = static_cast<std::uint32_t>(blob.size());
  }
  bool connect() {
    while (board.blob_bytes[1 - side] == 0) usleep(100);
    return queue_pair->connect(std::span(board.blobs[1 - side]).first(board.blob_bytes[1 - side]))
        .has_value();
  }
  /// Takes turns and sleeps, like an engine, until `done` returns true. Returns false if this takes 20 s.
  bool run_until(const std::function<bool()>& done) {
    const Time end = monotonic_now() + seconds(20);
    while (!done()) {
      const Time now = monotonic_now();
      if (now > end) return false;
      if (fabric->progress(now) == 0) fabric->wait(std::min(fabric->next_deadline(), now + seconds(5)));
    }
    return true;
  }
  bool run_until_completed(Completion& out) {
    return run_until([&] { return queue_pair->poll_completions({&out, 1}) != 0; });
  }

  Board& board;
  std::size_t side;
  std::unique_ptr<ShmFabric> fabric = open_shm_fabric();
  std::unique_ptr<QueuePair> queue_pair;
};

/// Runs `other` as end 1 in a separate process.
class Child {
 public:
  explicit Child(const std::function<bool(End&)>& other)
      : board_(static_cast<Board*>(
            mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    BOOST_REQUIRE(board_ != MAP_FAILED);
    pid_ = fork();
    if (pid_ == 0) {
      End end(*board_, 1);
      _exit(end.connect() && other(end) ? 0 : 1);
    }
  }
  ~Child() {
    signal(SIGKILL);
    wait();
    munmap(board_, sizeof(Board));
  }
  Board& board() { return *board_; }
  void signal(int number) const {
    if (pid_ > 0) kill(pid_, number);
  }
  /// Waits for the process. Returns true if it succeeded.
  bool wait() {
    if (pid_ <= 0) return false;
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  Board* board_;
  pid_t pid_ = -1;
};

void fill(std::span<std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
}

/// Receives one message, checks it, and sends an empty message back.
bool receive_one(End& end) {
  std::vector<std::byte> receive(kBytes), expected(kBytes);
  fill(expected);
  Completion done;
  if (!end.queue_pair->post_receive({.bytes = receive}) || !end.run_until_completed(done)) return false;
  if (done.status != WorkStatus::success || receive != expected) return false;
  return end.queue_pair->post_send({.bytes = {}}) && end.run_until_completed(done) &&
         done.status == WorkStatus::success;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_message_crosses_from_an_arena_and_from_private_memory) {
  for (const bool in_arena : {true, false}) {
    Child child(receive_one);
    End end(child.board(), 0);
    auto memory = *(in_arena ? end.fabric->make_arena(kBytes) : memory::Arena::make(kBytes));
    fill(memory.bytes().first(kBytes));
    BOOST_REQUIRE(end.connect());
    Completion done;
    BOOST_REQUIRE(end.queue_pair->post_receive({.bytes = {}}));
    BOOST_REQUIRE(end.queue_pair->post_send({.bytes = memory.bytes().first(kBytes)}));
    for (int i = 0; i < 2; ++i) {
      BOOST_REQUIRE(end.run_until_completed(done));
      BOOST_TEST((done.status == WorkStatus::success));
    }
    BOOST_TEST(child.wait());
  }
}

BOOST_AUTO_TEST_CASE(a_killed_peer_is_noticed_at_once_even_by_one_that_sleeps_and_has_nothing_for_it) {
  Child child([](End& end) {
    end.board.stage = 1;
    return end.run_until([] { return false; });
  });
  End end(child.board(), 0);
  BOOST_REQUIRE(end.connect());
  std::vector<std::byte> receive(10);
  BOOST_REQUIRE(end.queue_pair->post_receive({.work_id = 4, .bytes = receive}));
  BOOST_REQUIRE(end.run_until([&] { return child.board().stage == 1; }));
  BOOST_REQUIRE(end.queue_pair->post_write({.work_id = 5, .bytes = {}}));
  Completion done;
  // After this, each side has mapped the memory of the other one.
  BOOST_REQUIRE(end.run_until_completed(done));
  const Time killed = monotonic_now();
  child.signal(SIGKILL);
  BOOST_REQUIRE(end.run_until_completed(done));
  BOOST_TEST(done.work_id == 4u);
  BOOST_TEST((done.status == WorkStatus::flushed));
  BOOST_TEST((end.queue_pair->state() == QueuePairState::error));
  BOOST_TEST(end.queue_pair->error_cause() == "the peer has gone");
  // No request is posted. So no timeout runs, and the end was noticed in another manner.
  BOOST_TEST((monotonic_now() - killed < seconds(5)));
}

// The killed process has forked a child, which still holds the sockets of the killed process open.
BOOST_AUTO_TEST_CASE(a_killed_peer_is_noticed_though_a_child_of_its_lives_on) {
  Child child([](End& end) {
    if (fork() == 0) {
      for (int i = 0; i < 20'000 && end.board.stage != 2; ++i) usleep(1000);
      _exit(0);
    }
    end.board.stage = 1;
    return end.run_until([] { return false; });
  });
  End end(child.board(), 0);
  BOOST_REQUIRE(end.connect());
  BOOST_REQUIRE(end.run_until([&] { return child.board().stage == 1; }));
  BOOST_REQUIRE(end.queue_pair->post_write({.bytes = {}}));
  Completion done;
  BOOST_REQUIRE(end.run_until_completed(done));
  child.signal(SIGKILL);
  BOOST_TEST(end.run_until([&] { return end.queue_pair->state() == QueuePairState::error; }));
  BOOST_TEST(end.queue_pair->error_cause() == "the peer has gone");
  child.board().stage = 2;
}

BOOST_AUTO_TEST_CASE(a_peer_killed_in_the_middle_of_what_it_sends_or_takes_leaves_an_error_and_nothing_else) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    Random random(seed);
    constexpr std::size_t kLarge = 1 << 20;
    Child child([](End& end) {
      const auto memory = *end.fabric->make_arena(kLarge);
      end.board.stage = 1;
      while (end.board.key == 0) usleep(100);
      std::uint64_t posted = 0;
      return end.run_until([&] {
        Completion done;
        while (end.queue_pair->poll_completions({&done, 1}) != 0) --posted;
        for (; posted < 20; ++posted) {
          const auto bytes = memory.bytes().first(posted % 2 == 0 ? kLarge : 3000);
          (void)end.queue_pair->post_write(
              {.bytes = bytes,
               .remote_address = end.board.address,
               .remote_key = RemoteKey{static_cast<std::uint32_t>(end.board.key)}});
        }
        return false;
      });
    });
    End end(child.board(), 0);
    std::vector<std::byte> target(kLarge);
    const auto region = *end.fabric->register_memory(target);
    BOOST_REQUIRE(end.connect());
    BOOST_REQUIRE(end.run_until([&] { return child.board().stage == 1; }));
    child.board().address = region->remote_address();
    child.board().key = value_of(region->remote_key());
    const Time kill_at = monotonic_now() + microseconds(static_cast<std::int64_t>(random.below(8000)));
    BOOST_REQUIRE(end.run_until([&] { return monotonic_now() >= kill_at; }));
    child.signal(SIGKILL);
    BOOST_TEST(end.run_until([&] { return end.queue_pair->state() == QueuePairState::error; }));
  }
}

BOOST_AUTO_TEST_CASE(a_peer_that_is_stopped_for_300_ms_is_not_given_up) {
  Child child(receive_one);
  End end(child.board(), 0);
  std::vector<std::byte> bytes(kBytes);
  fill(bytes);
  BOOST_REQUIRE(end.connect());
  BOOST_REQUIRE(end.queue_pair->post_receive({.bytes = {}}));
  BOOST_REQUIRE(end.queue_pair->post_write({.bytes = {}}));
  Completion done;
  BOOST_REQUIRE(end.run_until_completed(done));
  child.signal(SIGSTOP);
  BOOST_REQUIRE(end.queue_pair->post_send({.bytes = bytes}));
  const Time stopped = monotonic_now();
  BOOST_REQUIRE(end.run_until([&] { return monotonic_now() > stopped + milliseconds(300); }));
  child.signal(SIGCONT);
  for (int i = 0; i < 2; ++i) {
    BOOST_REQUIRE(end.run_until_completed(done));
    BOOST_TEST((done.status == WorkStatus::success));
  }
  BOOST_TEST(child.wait());
}

// Both sides sleep whenever they can. An acknowledgement wakes a sleeper only when half of the sleeper's
// requests are done. After a lost wake-up, a round would take the longest time of a sleep.
BOOST_AUTO_TEST_CASE(two_that_sleep_at_every_chance_are_always_woken) {
  constexpr int kRounds = 1500;
  Child child([](End& end) {
    std::uint64_t posted = 0;
    for (; posted < 64; ++posted)
      if (!end.queue_pair->post_receive({.work_id = posted, .bytes = {}})) return false;
    Completion done;
    for (int round = 0; round < kRounds;) {
      if (!end.run_until_completed(done) || done.status != WorkStatus::success) return false;
      if (done.kind != WorkKind::receive_write_immediate) continue;
      if (!end.queue_pair->post_receive({.work_id = ++posted, .bytes = {}})) return false;
      if (*done.immediate == 0) continue;
      if (!end.queue_pair->post_send({.bytes = {}})) return false;
      ++round;
    }
    return end.run_until_completed(done);
  });
  End end(child.board(), 0);
  BOOST_REQUIRE(end.connect());
  BOOST_REQUIRE(end.queue_pair->post_receive({.bytes = {}}));
  Random random(4);
  const Time began = monotonic_now();
  Completion done;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t works = random.between(1, 40);
    for (std::uint64_t i = 1; i <= works; ++i)
      BOOST_REQUIRE(end.queue_pair->post_write({.immediate = i == works ? 1U : 0U}));
    for (std::uint64_t left = works + 1; left > 0; --left) {
      BOOST_REQUIRE(end.run_until_completed(done));
      BOOST_REQUIRE((done.status == WorkStatus::success));
      if (done.kind == WorkKind::receive) BOOST_REQUIRE(end.queue_pair->post_receive({.bytes = {}}));
    }
  }
  BOOST_TEST((monotonic_now() - began).seconds() < 10.0);
  BOOST_TEST(end.fabric->counters().sleeps > 100u);
  BOOST_TEST(child.wait());
}

BOOST_AUTO_TEST_SUITE_END()

#include "dataplane/memory/mapping_watch.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "dataplane/memory/arena.hpp"

BOOST_AUTO_TEST_SUITE(mapping_watch_test)

using namespace rdmc;
using namespace rdmc::memory;

namespace {

std::span<std::byte> map(std::size_t pages, void* where = nullptr) {
  const int fixed = where == nullptr ? 0 : MAP_FIXED;
  void* const start = mmap(where, pages * kPageBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | fixed, -1, 0);
  BOOST_REQUIRE(start != MAP_FAILED);
  return {static_cast<std::byte*>(start), pages * kPageBytes};
}

std::unique_ptr<MappingWatch> open_watch() {
  auto watch = MappingWatch::open();
  if (!watch) {
    std::printf("no watch: %s\n", watch.error().what.c_str());
    std::exit(77);
  }
  return std::move(*watch);
}

}  // namespace

BOOST_AUTO_TEST_CASE(whatever_takes_memory_away_is_known_when_it_returns) {
  const auto watch = open_watch();
  for (int round = 0; round < 200; ++round) {
    auto memory = map(8);
    BOOST_REQUIRE(watch->watch(memory));
    std::memset(memory.data(), round, memory.size());
    const auto middle = memory.subspan(2 * kPageBytes, kPageBytes);
    const auto rest = memory.subspan(4 * kPageBytes, kPageBytes);
    BOOST_REQUIRE(!watch->take().touches(memory));  // Using the memory is not a change.
    switch (round % 4) {
      case 0: munmap(middle.data(), middle.size()); break;
      case 1: madvise(middle.data(), middle.size(), MADV_DONTNEED); break;
      case 2: map(1, middle.data()); break;
      case 3: {
        const auto elsewhere = map(1);
        BOOST_REQUIRE(mremap(middle.data(), middle.size(), middle.size(), MREMAP_MAYMOVE | MREMAP_FIXED,
                             elsewhere.data()) == elsewhere.data());
        break;
      }
    }
    const auto gone = watch->take();
    BOOST_TEST(gone.touches(middle), "round " << round);
    BOOST_TEST(gone.touches(memory));
    BOOST_TEST(!gone.touches(rest));
    BOOST_TEST(!watch->take().touches(middle));  // Each change must be reported only once.
    munmap(memory.data(), memory.size());
    watch->take();
  }
}

BOOST_AUTO_TEST_CASE(what_is_watched_no_longer_is_told_of_no_longer_and_may_be_watched_again) {
  const auto watch = open_watch();
  for (int round = 0; round < 20; ++round) {
    const auto kept = map(2), dropped = map(2);
    BOOST_REQUIRE(watch->watch(kept));
    BOOST_REQUIRE(watch->watch(dropped));
    watch->unwatch(dropped);
    if (round % 2 == 1) BOOST_REQUIRE(watch->watch(dropped));
    munmap(dropped.data(), dropped.size());
    BOOST_TEST(watch->take().touches(dropped) == (round % 2 == 1));
    munmap(kept.data(), kept.size());
    BOOST_TEST(watch->take().touches(kept));
    watch->unwatch(kept);  // The memory is already unmapped. This call must cause no harm.
  }
}

BOOST_AUTO_TEST_CASE(another_thread_that_unmaps_goes_on_and_is_seen) {
  const auto watch = open_watch();
  const auto memory = map(4);
  BOOST_REQUIRE(watch->watch(memory));
  std::jthread([&] { munmap(memory.data(), memory.size()); }).join();
  BOOST_TEST(watch->take().touches(memory));
}

BOOST_AUTO_TEST_CASE(more_changes_than_there_is_room_for_are_one_for_everything) {
  const auto watch = open_watch();
  const auto memory = map(2 * MappingWatch::Gone::kRoom + 2);
  BOOST_REQUIRE(watch->watch(memory));
  for (std::size_t page = 0; page <= 2 * MappingWatch::Gone::kRoom; page += 2)
    munmap(memory.data() + page * kPageBytes, kPageBytes);
  const auto gone = watch->take();
  BOOST_TEST(gone.everything);
  BOOST_TEST(gone.touches(memory.last(1)));
  munmap(memory.data(), memory.size());
}

BOOST_AUTO_TEST_CASE(a_forked_child_keeps_nobody_from_unmapping_once_the_watch_has_ended) {
  auto watch = open_watch();
  const auto memory = map(4);
  BOOST_REQUIRE(watch->watch(memory));
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  watch.reset();
  alarm(20);
  BOOST_TEST(munmap(memory.data(), memory.size()) == 0);
  alarm(0);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

BOOST_AUTO_TEST_CASE(watches_come_and_go_while_others_give_memory_back) {
  std::atomic<bool> stop = false;
  std::jthread busy([&] {
    while (!stop) {
      const auto memory = map(64);
      munmap(memory.data(), memory.size());
      std::free(std::malloc(1 << 20));
    }
  });
  alarm(60);
  for (int round = 0; round < 200; ++round) {
    const auto watch = open_watch();
    const auto memory = map(4);
    BOOST_REQUIRE(watch->watch(memory));
    std::jthread([&] { munmap(memory.data(), memory.size()); }).join();
    BOOST_TEST(watch->take().touches(memory));
  }
  alarm(0);
  stop = true;
}

BOOST_AUTO_TEST_CASE(memory_of_a_file_is_refused) {
  const auto watch = open_watch();
  std::FILE* const file = std::tmpfile();
  BOOST_REQUIRE(ftruncate(fileno(file), kPageBytes) == 0);
  void* const start = mmap(nullptr, kPageBytes, PROT_READ, MAP_SHARED, fileno(file), 0);
  BOOST_REQUIRE(start != MAP_FAILED);
  BOOST_TEST(!watch->watch({static_cast<std::byte*>(start), kPageBytes}));
  munmap(start, kPageBytes);
  std::fclose(file);
}

BOOST_AUTO_TEST_SUITE_END()

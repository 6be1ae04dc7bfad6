// The log of a server, with real files. The state is a list of numbers. At random moments, the files are
// copied as they are, and the copy is opened: this is what a server finds that was killed at this moment.
#include <boost/test/unit_test.hpp>

#include <fstream>
#include <optional>
#include <random>
#include <thread>

#include "apps/replicated-kv/log/directory.hpp"
#include "tests/apps/replicated-kv/logging_server.hpp"
#include "tests/sampled.hpp"

BOOST_AUTO_TEST_SUITE(state_log_test)

using namespace rdmc;
using namespace rdmc::kv;

BOOST_AUTO_TEST_CASE(what_is_reported_to_be_on_disk_is_found_there) {
  std::size_t copies = 0, loads = 0, kills = 0;
  const std::uint64_t first = from_environment("RDMC_FIRST_SEED", 1);
  for (std::uint64_t seed = first; seed < first + from_environment("RDMC_WORLDS", all_or(18, 6)); ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937_64 random(seed);
      const auto below = [&](std::uint64_t most) { return random() % most; };
      const Folder folder;
      const auto syncs = static_cast<Syncs>(seed % 3);
      const bool without_uring = seed % 2 == 0;
      Server server(folder / "state", syncs, without_uring, seed);
      std::vector<Numbers> earlier;  // the states that were replaced before the present one was on disk
      bool is_loading = false;
      for (int i = 0; i < 200; ++i) {
        if (!is_loading)
          for (auto count = below(8); count > 0; --count) server.append(random(), below(200));
        server.turn(static_cast<int>(below(3)));
        if (below(20) == 0) server.log->request_copy();
        if (!is_loading && below(40) == 0) {
          earlier.push_back(server.list.numbers);
          server.log->load_begins();
          is_loading = true;
        } else if (is_loading && below(2) == 0) {
          ++loads;
          is_loading = false;
          server.list.numbers.assign(below(500), seed + i);
          const StoredState place{.epoch = 3, .position = server.log->place().position + 1000, .time = 5};
          server.positions.assign(server.list.numbers.size(), place.position);
          server.log->load_ended(place, server.now);
        }
        copies += server.log->is_copying();
        if (below(12) != 0) continue;
        ++kills;
        const std::size_t least = server.persisted();
        const bool is_stored = server.log->persisted() != 0;
        const Numbers found = recovered(folder / "state", folder / "copy");
        const bool is_present = is_prefix(found, server.list.numbers) && found.size() >= least;
        if (is_stored) earlier.clear();
        const bool is_earlier =
            std::ranges::any_of(earlier, [&](const Numbers& numbers) { return is_prefix(found, numbers); });
        BOOST_REQUIRE_MESSAGE(is_present || is_earlier,
                              found.size() << " numbers were found, " << least << " were on disk, "
                                           << server.list.numbers.size() << " there are");
      }
      if (is_loading) BOOST_REQUIRE(server.log->restore());
      server.log->flush();
      BOOST_TEST(server.log->is_written());
      for (int i = 0; i < 1000 && server.log->persisted() == 0 && !server.list.numbers.empty(); ++i)
        server.turn(20);
      server.log->flush();
      // The time of the test does not wait for the disk, so a write can seem to take long.
      BOOST_TEST(std::ranges::all_of(server.log->take_complaints(), [](const std::string& what) {
        return what.contains("has not finished a write") || what.contains("has finished the write");
      }));
      const Numbers all = server.list.numbers;
      server.log.reset();
      Server again(folder / "state", syncs, without_uring, seed + 1000);
      BOOST_REQUIRE(again.list.numbers == all);
    }
  }
  BOOST_TEST(copies > 10u);
  BOOST_TEST(loads > 10u);
  BOOST_TEST(kills > 50u);
}

BOOST_AUTO_TEST_CASE(only_one_process_uses_a_directory) {
  const Folder folder;
  Server server(folder / "state", Syncs::always, false, 1);
  List other;
  const auto refused = StateLog::open({.directory = (folder / "state").string()}, other);
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().code == Errc::already_exists));
}

BOOST_AUTO_TEST_CASE(a_directory_with_a_file_that_no_server_makes_is_refused_by_its_name) {
  Folder folder;
  const fs::path directory = folder / "log";
  const auto open = [&] {
    List list;
    auto opened = StateLog::open(
        {.directory = directory.string(), .other_files = {(directory / "users.acl").string(), "/none"}},
        list);
    if (!opened) return opened.error().what;
    std::string complaints;
    for (const std::string& complaint : (*opened)->take_complaints()) complaints += complaint + "\n";
    return complaints;
  };
  BOOST_TEST(open() == "");
  fs::create_directory(directory / "views");
  fs::create_directory(directory / "lost+found");
  std::ofstream(directory / "new-copy-7");
  BOOST_TEST(open() == "");
  for (const std::string name : {".nfs0001", ".copy-1", "users.acl"})
    std::ofstream(directory / name) << "data";
  BOOST_TEST(open() == "");
  for (const std::string name : {"core.12", "dump.rdb", "new-log-1"}) {
    std::ofstream(directory / name) << "data";
    BOOST_TEST(open() == (directory / name).string() +
                             ": this server does not use this file. The directory is for its files only\n");
    fs::remove(directory / name);
  }
  for (const std::string name : {"copy-1.bak", "copy", "copy-", "log-x", "new-copy.1"}) {
    std::ofstream(directory / name) << "data";
    BOOST_TEST(open().starts_with((directory / name).string() + ": a server has no file with this name"));
    fs::remove(directory / name);
  }
  BOOST_TEST(open() == "");
}

BOOST_AUTO_TEST_CASE(nothing_more_is_read_for_a_state_that_was_given_up_and_the_files_stay) {
  const Folder folder;
  {
    Server server(folder / "state", Syncs::always, false, 1);
    for (int i = 0; i < 5; ++i) server.append(3, 10);
    server.log->flush();
  }
  List list;
  list.given_up_at = 3;
  const auto given_up = StateLog::open({.directory = (folder / "state").string()}, list);
  BOOST_REQUIRE(!given_up);
  BOOST_TEST((given_up.error().code == Errc::cancelled));
  BOOST_TEST(list.numbers.size() == 3u);
  List all;
  BOOST_TEST(StateLog::open({.directory = (folder / "state").string()}, all).has_value());
  BOOST_TEST(all.numbers.size() == 5u);
}

BOOST_AUTO_TEST_CASE(a_damaged_log_is_refused_by_name_and_offset) {
  const Folder folder;
  {
    Server server(folder / "state", Syncs::always, false, 1);
    for (int i = 0; i < 5; ++i) {
      server.append(3, 10);
      server.log->flush();
    }
  }
  {
    std::fstream file(folder / "state" / "log-1", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(kFileHeadBytes + kFrameHeadBytes + 3);
    file.put('!');
  }
  List list;
  const auto refused = StateLog::open({.directory = (folder / "state").string()}, list);
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().code == Errc::corrupt));
  BOOST_TEST(refused.error().what.ends_with("state/log-1: damaged at offset 64"));
}

/// The server was killed, and its child has not got CPU yet.
BOOST_AUTO_TEST_CASE(a_lock_that_is_given_up_soon_is_waited_for_and_another_one_is_an_error) {
  const Folder folder;
  const std::string path = folder / "state";
  auto held = std::optional(Directory::open(path).value());
  const auto refused = Directory::open(path);
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().code == Errc::already_exists));
  const std::jthread child([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    held.reset();
  });
  BOOST_TEST(Directory::open(path).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

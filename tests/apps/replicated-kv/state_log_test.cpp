// The log of a server, with real files. The state is a list of numbers. At random moments, the files are
// copied as they are, and the copy is opened: this is what a server finds that was killed at this moment.
#include "apps/replicated-kv/log/state_log.hpp"

#include <poll.h>
#include <stdlib.h>

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/sampled.hpp"

BOOST_AUTO_TEST_SUITE(state_log_test)

using namespace rdmc;
using namespace rdmc::kv;

namespace {

namespace fs = std::filesystem;
using Numbers = std::vector<std::uint64_t>;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "rdmc-state-log-XXXXXX").string();
    BOOST_REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

class List final : public LoggedState {
 public:
  void clear() override {
    numbers.clear();
    loaded_.clear();
  }
  bool load(std::span<const std::byte> piece) override {
    loaded_.insert(loaded_.end(), piece.begin(), piece.end());
    return true;
  }
  bool end_load(const StoredState&) override {
    numbers.resize(loaded_.size() / sizeof(std::uint64_t));
    std::memcpy(numbers.data(), loaded_.data(), loaded_.size());
    return loaded_.size() % sizeof(std::uint64_t) == 0;
  }
  void apply(const OrderedEvent& event) override { numbers.push_back(event.random); }
  void save(const std::function<void(std::vector<std::byte>)>& write) const override {
    for (const std::uint64_t& number : numbers) {
      const auto bytes = std::as_bytes(std::span(&number, 1));
      write({bytes.begin(), bytes.end()});
    }
  }

  Numbers numbers;

 private:
  std::vector<std::byte> loaded_;
};

bool is_prefix(const Numbers& some, const Numbers& all) {
  return some.size() <= all.size() && std::equal(some.begin(), some.end(), all.begin());
}

/// A log, its state, and the time.
struct Server {
  Server(const fs::path& directory, Syncs syncs, bool without_uring, std::uint64_t seed) {
    auto opened = StateLog::open({.directory = directory.string(),
                                  .syncs = syncs,
                                  .least_log_bytes = 3000,
                                  .seed = seed,
                                  .without_uring = without_uring},
                                 list);
    BOOST_REQUIRE_MESSAGE(opened, opened.error().what);
    log = std::move(*opened);
  }

  void append(std::uint64_t number, std::size_t length) {
    const std::vector<std::byte> bytes(length, std::byte{7});
    const OrderedEvent event{.position = log->place().position + number % 3,
                             .epoch = 2,
                             .own_number = 0,
                             .time = static_cast<std::int64_t>(list.numbers.size()),
                             .random = number,
                             .bytes = bytes,
                             .keeper = {}};
    list.apply(event);
    log->append(event);
    positions.push_back(log->place().position);
  }

  /// One turn of a loop, which waits for the disk for up to `patience` milliseconds.
  void turn(int patience) {
    log->submit(now);
    std::array<pollfd, 2> both{
        {{log->descriptors().first, POLLIN, 0}, {log->descriptors().second, POLLIN, 0}}};
    ::poll(both.data(), both.size(), patience);
    now += 100;
    log->work(now);
  }

  /// The number of events that are on disk. A state that was loaded may not be there yet.
  std::size_t persisted() const {
    return static_cast<std::size_t>(std::ranges::upper_bound(positions, log->persisted()) -
                                    positions.begin());
  }

  List list;
  std::unique_ptr<StateLog> log;
  Milliseconds now = 1000;
  std::vector<std::uint64_t> positions;  // after each number of the list
};

/// What a server finds that is started with a copy of the files.
Numbers recovered(const fs::path& directory, const fs::path& copy) {
  fs::remove_all(copy);
  fs::create_directory(copy);
  // The server goes on meanwhile: a file may be gone that was there.
  std::vector<fs::path> files(fs::directory_iterator(directory), fs::directory_iterator{});
  for (const fs::path& file : files) {
    std::error_code ignored;
    fs::copy_file(file, copy / file.filename(), ignored);
  }
  Server server(copy, Syncs::always, true, 1);
  return server.list.numbers;
}

}  // namespace

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
      BOOST_TEST(server.log->take_complaints().empty());
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

BOOST_AUTO_TEST_SUITE_END()

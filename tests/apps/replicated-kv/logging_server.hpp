// A server with a log in real files. Its state is a list of numbers.
#pragma once

#include <poll.h>
#include <stdlib.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/replicated-kv/log/state_log.hpp"

namespace rdmc::kv {

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
  bool is_given_up() const override { return numbers.size() >= given_up_at; }
  void save(const std::function<void(std::vector<std::byte>)>& write) const override {
    for (const std::uint64_t& number : numbers) {
      const auto bytes = std::as_bytes(std::span(&number, 1));
      write({bytes.begin(), bytes.end()});
    }
  }

  Numbers numbers;
  std::size_t given_up_at = SIZE_MAX;

 private:
  std::vector<std::byte> loaded_;
};

inline bool is_prefix(const Numbers& some, const Numbers& all) {
  return some.size() <= all.size() && std::equal(some.begin(), some.end(), all.begin());
}

/// A log, its state, and the time.
struct Server {
  Server(const fs::path& directory, Syncs syncs, bool without_uring, std::uint64_t seed) {
    open(directory, syncs, without_uring, seed, nullptr);
  }
  Server(const fs::path& directory, Syncs syncs, std::unique_ptr<AppendFile> file) {
    open(directory, syncs, true, 1, std::move(file));
  }

  void open(const fs::path& directory, Syncs syncs, bool without_uring, std::uint64_t seed,
            std::unique_ptr<AppendFile> file) {
    auto opened = StateLog::open({.directory = directory.string(),
                                  .syncs = syncs,
                                  .least_log_bytes = 3000,
                                  .seed = seed,
                                  .without_uring = without_uring},
                                 list, std::move(file));
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

/// Returns what a server finds that is started with a copy of the files.
inline Numbers recovered(const fs::path& directory, const fs::path& copy) {
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

}  // namespace rdmc::kv

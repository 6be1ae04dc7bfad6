// Helpers for the tests of file stores: a bell in place of the engine's wake-up, with which a test can wait
// without sleeping; random bytes; and a digest that an independent program computes.
#pragma once

#include <fmt/format.h>
#include <stdio.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string>

#include "dataplane/base/random.hpp"

namespace rdmc::bcast {

/// The wake-up of a store. The store's thread rings it, and the test waits for it.
class Bell {
 public:
  void ring() {
    {
      const std::lock_guard lock(mutex_);
      ++rings_;
    }
    changed_.notify_one();
  }

  /// Checks `condition` now and after each ring, until it is true.
  template <typename Condition>
  void wait_until(Condition condition) {
    std::unique_lock lock(mutex_);
    while (true) {
      const auto seen = rings_;
      lock.unlock();
      if (condition()) return;
      lock.lock();
      const bool rung = changed_.wait_for(lock, std::chrono::seconds(60), [&] { return rings_ != seen; });
      BOOST_REQUIRE_MESSAGE(rung, "the store's thread is silent");
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t rings_ = 0;
};

inline std::string random_text(std::size_t size, std::uint64_t seed) {
  Random random(seed);
  std::string text(size, '\0');
  for (std::size_t at = 0; at < size; at += 8) {
    const auto word = random.next();
    std::memcpy(text.data() + at, &word, std::min<std::size_t>(8, size - at));
  }
  return text;
}

/// Returns the digest that the program xxh128sum of the package xxhash computes for the file.
inline std::string xxh128sum(const std::filesystem::path& path) {
  FILE* const program = ::popen(fmt::format("xxh128sum -q '{}'", path.string()).c_str(), "r");
  BOOST_REQUIRE(program != nullptr);
  char line[64] = {};
  const bool read = ::fgets(line, sizeof line, program) != nullptr;
  ::pclose(program);
  BOOST_REQUIRE_MESSAGE(read, "xxh128sum (package xxhash) is needed");
  return std::string(line).substr(0, 32);
}

}  // namespace rdmc::bcast

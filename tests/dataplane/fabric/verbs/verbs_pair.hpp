// Two verbs fabrics and a connection between them. They use the RDMA device whose address is in the
// environment variable RDMC_VERBS_ADDRESS. In the virtual machine of tests/interop, this device is Soft-RoCE.
#pragma once

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstdlib>
#include <random>
#include <vector>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/random.hpp"
#include "dataplane/fabric/verbs/verbs_fabric.hpp"

namespace rdmc::fabric::testing {

inline constexpr auto kAll = RemoteAccess::write | RemoteAccess::read | RemoteAccess::atomic;

inline Address device_address() {
  const char* const text = std::getenv("RDMC_VERBS_ADDRESS");
  BOOST_REQUIRE(text != nullptr);
  return parse_address(text, 0).value();
}

inline std::vector<std::byte> random_bytes(std::size_t size, std::uint64_t seed = 1) {
  Random random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.next());
  return bytes;
}

struct Side {
  std::unique_ptr<VerbsFabric> fabric;
  std::unique_ptr<QueuePair> queue_pair;
  std::vector<Completion> done;

  void open(const QueuePairOptions& options) {
    auto opened = VerbsFabric::open(device_address(), std::mt19937(std::random_device{}()));
    BOOST_REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.error().what));
    fabric = std::move(*opened);
    auto made = fabric->create_queue_pair(options);
    BOOST_REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().what));
    queue_pair = std::move(*made);
  }
  void turn() {
    fabric->progress(monotonic_now());
    if (!queue_pair) return;
    std::array<Completion, 16> some;
    const std::size_t count = queue_pair->poll_completions(some);
    done.insert(done.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(count));
  }
};

class Pair {
 public:
  explicit Pair(const QueuePairOptions& options = {}) {
    for (Side& side : sides_) side.open(options);
    for (std::size_t i = 0; i < 2; ++i) {
      const auto connected = sides_[i].queue_pair->connect(sides_[1 - i].queue_pair->local_blob());
      BOOST_REQUIRE_MESSAGE(connected.has_value(), (connected ? "" : connected.error().what));
    }
  }
  Side& operator[](std::size_t i) { return sides_[i]; }

  template <typename Condition>
  bool run_until(Condition condition, Duration patience = seconds(20)) {
    for (const Time end = monotonic_now() + patience; !condition();) {
      if (monotonic_now() > end) return false;
      for (Side& side : sides_) side.turn();
    }
    return true;
  }
  bool run_until_done(std::size_t i, std::size_t count) {
    return run_until([&, i, count] { return sides_[i].done.size() >= count; });
  }

 private:
  std::array<Side, 2> sides_;
};

}  // namespace rdmc::fabric::testing

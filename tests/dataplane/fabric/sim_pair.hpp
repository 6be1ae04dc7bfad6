// Two simulated hosts, each with a software fabric, and one connection between them, in virtual time.
#pragma once

#include <boost/test/unit_test.hpp>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "dataplane/base/random.hpp"
#include "dataplane/fabric/software_fabric.hpp"
#include "dataplane/port/sim_port.hpp"

namespace rdmc::fabric::testing {

class SimPair {
 public:
  struct Options {
    sim::LinkOptions link{.queue_bytes = 16 << 20};
    port::SimPortOptions port{};
    QueuePairOptions queue_pair{};
    bool ipv6 = false, encrypt = false;
    std::uint32_t bulk_flows = SoftwareFabricOptions{}.bulk_flows;
  };
  explicit SimPair(const Options& options) : network(simulation) {
    for (std::size_t i = 0; i < 2; ++i) {
      std::optional<Address> address;
      if (options.ipv6) {
        address.emplace(Address{.ipv6 = true});
        address->bytes[0] = 0xFD;
        address->bytes[15] = static_cast<std::uint8_t>(i + 1);
      }
      const auto host = network.add_host({.link = options.link, .address = address});
      members[i].start(network, simulation.add_process(host, members[i], {}), i + 1, options);
    }
    for (Member& member : members) {
      auto made = member.fabric->create_queue_pair(options.queue_pair);
      BOOST_REQUIRE(made.has_value());
      member.queue_pair = std::move(*made);
    }
    for (std::size_t i = 0; i < 2; ++i)
      BOOST_REQUIRE(members[i].queue_pair->connect(members[1 - i].queue_pair->local_blob()).has_value());
  }

  QueuePair& queue_pair(std::size_t i) { return *members[i].queue_pair; }
  SoftwareFabric& fabric(std::size_t i) { return *members[i].fabric; }
  std::vector<Completion>& completions(std::size_t i) { return members[i].completions; }

  /// Runs until end `i` has `count` completions. Returns false if no further event exists, or after 100
  /// virtual seconds.
  bool run_until_completed(std::size_t i, std::size_t count) {
    return run_until([&] { return completions(i).size() >= count; });
  }
  template <typename Done>
  bool run_until(Done done) {
    for (const auto id : ids()) simulation.wake(id);
    return simulation.run_until(done, simulation.now() + seconds(100));
  }

  struct Member final : sim::Process {
    void start(sim::Network& network, sim::ProcessId own, std::uint64_t seed, const Options& options) {
      id = own;
      random.emplace(seed);
      port.emplace(network, id, options.port);
      fabric.emplace(*port, SoftwareFabricOptions{
                                .entropy = [this] { return static_cast<std::uint32_t>(random->next()); },
                                .bulk_flows = options.bulk_flows,
                                .encrypt = options.encrypt});
    }
    void run(Time now) override {
      if (!queue_pair) return;
      while (fabric->progress(now) > 0) continue;
      std::array<Completion, 16> some;
      while (const std::size_t count = queue_pair->poll_completions(some))
        completions.insert(completions.end(), some.begin(),
                           some.begin() + static_cast<std::ptrdiff_t>(count));
    }
    Time next_deadline() override { return queue_pair ? fabric->next_deadline() : Time::never(); }

    sim::ProcessId id{};
    std::optional<Random> random;
    std::optional<port::SimPort> port;
    std::optional<SoftwareFabric> fabric;
    std::unique_ptr<QueuePair> queue_pair;
    std::vector<Completion> completions;
  };

  sim::Simulation simulation{1};
  sim::Network network;
  std::array<Member, 2> members;

 private:
  std::array<sim::ProcessId, 2> ids() const { return {members[0].id, members[1].id}; }
};

}  // namespace rdmc::fabric::testing

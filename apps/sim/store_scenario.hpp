// rdmc_sim store: the nodes of an embedded store and its clients run the product's own cores while faults
// strike. The answers that clients get must be linearizable. The scenario is a function of its options.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "apps/sim/scenario.hpp"

namespace rdmc::sim_app {

enum class StoreFault : std::uint8_t {
  kill,          ///< A node's process ends and is started again. Without a disk it loses its state.
  power,         ///< The host of a node loses power. Bytes that are not durable are lost or torn.
  wipe,          ///< A node loses its state.
  wipe_joining,  ///< A node that is about to join loses its state again.
  kill_joining,  ///< The process of a node that is about to join does not run for a while.
  /// A node's disk refuses a write. The node is started again. The host may also lose power before that.
  refused_flush,
  /// A node's disk is full. The node is started again. The host may also lose power before that.
  full_disk,
  slow_disk,  ///< A node's disk takes up to 300 ms for a write.
  cut,        ///< A node is disconnected from all other processes.
  one_way,    ///< Messages in one direction between a node and another process are lost.
  pause,      ///< A node is stopped for up to 1 s.
  restart_client,
  /// Two nodes lose their state, perhaps while one node is joining, and an operator names the third node as
  /// the survivor.
  survivor,
};
inline constexpr std::array kStoreFaults{
    std::string_view("kill"),         std::string_view("power"),        std::string_view("wipe"),
    std::string_view("wipe_joining"), std::string_view("kill_joining"), std::string_view("refused_flush"),
    std::string_view("full_disk"),    std::string_view("slow_disk"),    std::string_view("cut"),
    std::string_view("one_way"),      std::string_view("pause"),        std::string_view("restart_client"),
    std::string_view("survivor")};

struct StoreOptions {
  std::uint64_t seed = 1;
  std::uint32_t nodes = 3;  ///< must be 1 or 3
  bool disks = true;        ///< If false, there are no disks, so a node that ends loses its state.
  std::uint32_t clients = 4;
  std::uint32_t groups = 2;
  /// The number of times that each fault strikes, at random moments of the time in which faults strike. Of
  /// all faults, only `survivor` makes a majority lose its state. Only an operator can repair this loss.
  std::array<std::uint32_t, kStoreFaults.size()> strikes{};
  sim::FaultRates rates{};  ///< The fault rates of messages during the time in which faults strike.
  Duration faulty_time = seconds(2);
  Duration think{milliseconds(6)};  ///< The longest pause of a client between two requests.

  std::uint32_t& operator[](StoreFault fault) { return strikes[static_cast<std::size_t>(fault)]; }
};

/// The time within which, after the faults have stopped, every node must be active and every client must get
/// an answer.
inline constexpr Duration kStoreSettledWithin = seconds(5);

/// Runs the scenario. The run checks:
/// - The answers are linearizable. The answers after an operator has named a survivor are checked separately.
/// - No journal is found corrupt.
/// - The store forms.
/// - After the faults have stopped, all nodes are active again and every client gets an answer.
///
/// The figures are: views, answers, failures (requests without an answer), configurations, joins, overtaken
/// (proposals that lost to a higher ballot), torn and lost (writes, after a loss of power), slowest_us (the
/// slowest answer after the faults).
ScenarioResult run_store(const StoreOptions& options);

}  // namespace rdmc::sim_app

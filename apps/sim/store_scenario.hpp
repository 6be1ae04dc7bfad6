// rdmc_sim store: the nodes of an embedded store and its clients, by the product's own cores, while
// everything goes wrong: what clients are told must be explained by one order of all that they asked. A
// function of its options, as every scenario.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "apps/sim/scenario.hpp"

namespace rdmc::sim_app {

enum class StoreFault : std::uint8_t {
  kill,           ///< a node's process ends, and is started again; without a disk it has lost its state
  power,          ///< its host loses power: what was not durable is lost, or torn
  wipe,           ///< a node loses its state
  wipe_joining,   ///< one that is about to join again loses it once more
  kill_joining,   ///< one that is about to join is away for a while
  refused_flush,  ///< its disk refuses a write; the node is started again, after a loss of power or without
  full_disk,      ///< its disk has no room; the same
  slow_disk,      ///< its disk takes up to 300 ms for a write
  cut,            ///< nothing reaches a node, and it reaches nobody
  one_way,        ///< nothing from one node, or one client, reaches another node
  pause,          ///< a node is stopped for up to 1 s
  restart_client,
  survivor,  ///< two nodes lose their state, also while one is let in, and an operator names the third one
};
inline constexpr std::array kStoreFaults{
    std::string_view("kill"),         std::string_view("power"),        std::string_view("wipe"),
    std::string_view("wipe_joining"), std::string_view("kill_joining"), std::string_view("refused_flush"),
    std::string_view("full_disk"),    std::string_view("slow_disk"),    std::string_view("cut"),
    std::string_view("one_way"),      std::string_view("pause"),        std::string_view("restart_client"),
    std::string_view("survivor")};

struct StoreOptions {
  std::uint64_t seed = 1;
  std::uint32_t nodes = 3;  ///< or 1
  bool disks = true;        ///< without, a node that ends has lost its state
  std::uint32_t clients = 4;
  std::uint32_t groups = 2;
  /// How often each fault strikes, at random moments of the faulty time. Only `survivor` strikes so that a
  /// majority has lost its state, which only an operator can mend.
  std::array<std::uint32_t, kStoreFaults.size()> strikes{};
  sim::FaultRates rates{};  ///< of messages, during the faulty time
  Duration faulty_time = seconds(2);
  Duration think{milliseconds(6)};  ///< of a client between two requests, at most

  std::uint32_t& operator[](StoreFault fault) { return strikes[static_cast<std::size_t>(fault)]; }
};

/// Once faults have stopped, every node must serve and every client be answered within this.
inline constexpr Duration kStoreSettledWithin = seconds(5);

/// What it demands: one order explains all answers (and those after an operator named a survivor, by
/// themselves); no journal is found corrupt; the store forms; once the
/// faults have stopped, all nodes serve again, and a reading of everything shows what stood last. Figures:
/// views, answers, failures (requests that got none), configurations, joins, overtaken (proposals that a
/// higher ballot came before), torn and lost (writes, after a loss of power), slowest_us (an answer after the
/// faults).
ScenarioResult run_store(const StoreOptions& options);

}  // namespace rdmc::sim_app

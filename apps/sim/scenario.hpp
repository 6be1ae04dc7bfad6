// What a scenario of rdmc_sim is asked and what it answers. A scenario is a function of its options: the same
// options give the same result, trace hash included.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dataplane/base/types.hpp"
#include "dataplane/sim/faults.hpp"

namespace rdmc::sim_app {

struct ScenarioOptions {
  std::uint64_t seed = 1;
  std::uint32_t members = 8;  ///< the root included
  std::uint64_t size_bytes = 1 << 20;
  std::uint32_t block_bytes = 64 * 1024;
  std::uint64_t window_bytes = 0;       ///< of a member's ring; at least twice what the pipeline needs
  std::uint64_t rate = 10'000'000'000;  ///< of every link, bits per second
  std::uint32_t mtu = 1500;
  bool selective_repeat = true;
  sim::FaultRates rates{};       ///< of datagrams
  std::uint32_t kills = 0;       ///< receivers killed at random moments; never all of them
  std::uint32_t root_kills = 0;  ///< not 0: the root is killed at a random moment
  std::uint32_t root_stops = 0;  ///< not 0: it is stopped for 2 s at a random moment, and goes on
  std::uint32_t pauses = 0;      ///< receivers stopped for up to 300 ms at random moments
  std::uint32_t slow_disks = 0;  ///< receivers whose disk is slower than the link
  std::uint32_t full_disks = 0;  ///< receivers whose disk is full at a random block
};

struct ScenarioResult {
  std::uint64_t trace_hash = 0;
  double virtual_seconds = 0;  ///< from the send to the last delivery
  double bound_seconds = 0;    ///< for blocks - 1 + ceil(log2 members) blocks at the links' rate
  double rescue_seconds = 0;   ///< from the root's loss to the last commit of a survivor; 0: none
  std::uint64_t events = 0;
  std::vector<std::string> violations;
  std::map<std::string, std::uint64_t> faults;   ///< kind -> how often it struck
  std::map<std::string, std::uint64_t> figures;  ///< the scenario's own
};

/// One file from the root to every other member, through the session, the relay and the RC cores: the
/// product's own, over the simulated network. What it demands: every live member ends with the exact bytes -
/// without the root, if those alive have every block among them - a dead one is named, an epoch ends
/// everywhere within 1 s of a death, nothing is delivered twice, nothing is written out of place, and all of
/// it ends.
ScenarioResult run_bcast(const ScenarioOptions& options);

}  // namespace rdmc::sim_app

// What a scenario of rdmc_sim is asked and what it answers. A scenario is a function of its options: the same
// options give the same result, trace hash included.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dataplane/base/types.hpp"
#include "dataplane/relay/relay.hpp"
#include "dataplane/relay/schedule.hpp"
#include "dataplane/sim/faults.hpp"

namespace rdmc::sim_app {

/// What moves through the network: packets, through the RC core, or whole blocks, as a fluid.
enum class Model : std::uint8_t { packets, blocks };

/// What only the block model knows.
struct BlockModel {
  Duration latency = microseconds(5);  ///< of a hop, beyond the time at the links' rate
  /// Of a received block, on its host's one core: from its expected write to when it can be sent on.
  Duration relay_cost = microseconds(50);
  Duration jitter = microseconds(10);  ///< added to each hop and to each relay cost, uniform up to this
  std::uint32_t writes_in_flight = relay::kDefaultWritesInFlight;  ///< of a member
  std::uint32_t senders = 1;       ///< groups of all members, each with another root, that send at once
  std::uint32_t slow_links = 0;    ///< connections at slow_rate: so many,
  std::uint32_t slow_percent = 0;  ///< or so many of those between racks, if racks are known
  std::uint64_t slow_rate = 0;     ///< bits per second, each way
};

struct ScenarioOptions {
  Model model = Model::packets;
  std::uint64_t seed = 1;
  std::uint32_t members = 8;  ///< the root included
  std::uint64_t size_bytes = 1 << 20;
  std::uint32_t block_bytes = 64 * 1024;
  relay::Algorithm algorithm = relay::Algorithm::binomial_pipeline;
  relay::Racks racks{};                 ///< of the members by rank; each with an uplink, when they are known
  std::uint64_t uplink_rate = 0;        ///< of each rack, each way, bits per second; 0: as a link's
  std::uint64_t window_bytes = 0;       ///< of a member's ring; at least twice what the pipeline needs
  std::uint64_t rate = 10'000'000'000;  ///< of every link, bits per second
  /// Members by rank whose link has another rate, each way, bits per second.
  std::map<std::uint32_t, std::uint64_t> slow_hosts{};
  std::uint32_t mtu = 1500;
  Duration link_delay = microseconds(5);  ///< of every link: two of them are between two hosts
  /// Members by rank whose link has another delay; packets only.
  std::map<std::uint32_t, Duration> far_hosts{};
  bool finds_stragglers = false;  ///< packets only; where the algorithm was not asked for
  bool selective_repeat = true;
  sim::FaultRates rates{};       ///< of datagrams
  std::uint32_t kills = 0;       ///< receivers killed at random moments; never all of them
  std::uint32_t root_kills = 0;  ///< not 0: the root is killed at a random moment
  std::uint32_t root_stops = 0;  ///< not 0: it is stopped for 2 s at a random moment, and goes on
  std::uint32_t pauses = 0;      ///< receivers stopped for up to 300 ms at random moments
  std::uint32_t slow_disks = 0;  ///< receivers whose disk is slower than the link
  std::uint32_t full_disks = 0;  ///< receivers whose disk is full at a random block
  BlockModel blocks{};
};

struct ScenarioResult {
  std::uint64_t trace_hash = 0;
  double virtual_seconds = 0;  ///< from the send to the last delivery
  double skew_seconds = 0;     ///< from the first delivery to the last
  double bound_seconds = 0;    ///< for as many blocks as the algorithm has steps at the links' rate
  double rescue_seconds = 0;   ///< from the root's loss to the last commit of a survivor; 0: none
  std::string algorithm;       ///< of a bcast: what was asked for, or chosen
  std::uint32_t block_bytes = 0;
  std::uint64_t events = 0;
  std::vector<std::string> violations;
  std::map<std::string, std::uint64_t> faults;   ///< kind -> how often it struck
  std::map<std::string, std::uint64_t> figures;  ///< the scenario's own
  /// The seconds from the send to each member's last block, by rank; of a bcast only. The root has 0, and so
  /// has a member that did not get all blocks.
  std::vector<double> delivered_seconds;
};

/// One file from the root to every other member, by the product's own cores. With packets: the session, the
/// relay and the RC core, over the simulated network. What it demands: every live member ends with the exact
/// bytes - without the root, if those alive have every block among them - a dead one is named, an epoch ends
/// everywhere within 1 s of a death, nothing is delivered twice, nothing is written out of place, and all of
/// it ends. With blocks: the relay alone, over a fluid network, nobody dies; it demands that every member
/// gets every block once, that no block is written where it was not granted or where another is still needed,
/// and an end.
ScenarioResult run_bcast(const ScenarioOptions& options);
/// The two models of it; run_bcast chooses.
ScenarioResult run_packets(const ScenarioOptions& options);
ScenarioResult run_blocks(const ScenarioOptions& options);

}  // namespace rdmc::sim_app

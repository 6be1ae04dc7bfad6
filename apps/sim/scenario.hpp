// The options and the result of a scenario of rdmc_sim. A scenario is a function of its options: the same
// options give the same result, including the trace hash.
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

/// The unit that is sent through the network. With `packets`, these are the packets of the RC core. With
/// `blocks`, these are whole blocks in a fluid network.
enum class Model : std::uint8_t { packets, blocks };

/// The options that only the block model has.
struct BlockModel {
  /// The latency of a hop, in addition to the transmission time at the links' rate.
  Duration latency = microseconds(5);
  /// The time that a host's one core needs for a received block, from the completion of the block until the
  /// block can be sent on.
  Duration relay_cost = microseconds(50);
  /// The largest random delay that is added to each hop and to each relay cost (uniform).
  Duration jitter = microseconds(10);
  std::uint32_t writes_in_flight = relay::kDefaultWritesInFlight;  ///< The limit of one member's writes in
                                                                   ///< flight.
  /// The number of groups that send at once. Each group has all members and another root.
  std::uint32_t senders = 1;
  std::uint32_t slow_links = 0;  ///< The number of connections at slow_rate.
  /// The percentage of the connections that are slow, used instead of slow_links. If racks are known, it is
  /// the percentage of the connections between racks.
  std::uint32_t slow_percent = 0;
  std::uint64_t slow_rate = 0;  ///< The rate of a slow connection in each direction, in bits per second.
};

struct ScenarioOptions {
  Model model = Model::packets;
  std::uint64_t seed = 1;
  std::uint32_t members = 8;  ///< The number of members, including the root.
  std::uint64_t size_bytes = 1 << 20;
  std::uint32_t block_bytes = 64 * 1024;
  relay::Algorithm algorithm = relay::Algorithm::binomial_pipeline;
  /// The racks of the members by rank. If racks are known, each rack has an uplink.
  relay::Racks racks{};
  /// The rate of each rack's uplink in each direction, in bits per second. 0 means the rate of a link.
  std::uint64_t uplink_rate = 0;
  /// The size of a member's ring buffer. The ring buffer is always at least twice as large as the algorithm
  /// needs.
  std::uint64_t window_bytes = 0;
  std::uint64_t rate = 10'000'000'000;  ///< The rate of every link, in bits per second.
  /// The members, by rank, whose links have another rate, and this rate in each direction in bits per second.
  std::map<std::uint32_t, std::uint64_t> slow_hosts{};
  std::uint32_t mtu = 1500;
  /// The delay of every link. There are two links between two hosts.
  Duration link_delay = microseconds(5);
  /// The members, by rank, whose links have another delay, and this delay. Used with packets only.
  std::map<std::uint32_t, Duration> far_hosts{};
  bool finds_stragglers = false;  ///< True if the user did not name the algorithm; used with packets only.
  bool selective_repeat = true;
  sim::FaultRates rates{};  ///< The rates of the faults of datagrams.
  /// The number of receivers that are killed at random moments. At least one receiver survives.
  std::uint32_t kills = 0;
  std::uint32_t root_kills = 0;  ///< If not 0, the root is killed at a random moment.
  /// If not 0, the root is stopped for 2 s at a random moment, and then continues.
  std::uint32_t root_stops = 0;
  /// The number of receivers that are stopped for up to 300 ms at random moments.
  std::uint32_t pauses = 0;
  std::uint32_t slow_disks = 0;  ///< The number of receivers whose disk is slower than the link.
  /// The number of receivers whose disk becomes full at a random block.
  std::uint32_t full_disks = 0;
  BlockModel blocks{};
};

struct ScenarioResult {
  std::uint64_t trace_hash = 0;
  double virtual_seconds = 0;  ///< The time from the send to the last delivery.
  double skew_seconds = 0;     ///< The time from the first to the last delivery.
  double bound_seconds = 0;    ///< The lower bound, see bound_seconds() in measures.hpp.
  /// The time from the root's loss to the last commit of a survivor, or 0 if no survivor has committed.
  double rescue_seconds = 0;
  std::string algorithm;  ///< For a bcast: the algorithm that was requested or chosen.
  std::uint32_t block_bytes = 0;
  std::uint64_t events = 0;
  std::vector<std::string> violations;
  std::map<std::string, std::uint64_t> faults;   ///< The number of strikes of each kind of fault.
  std::map<std::string, std::uint64_t> figures;  ///< Further figures of the scenario.
  /// For a bcast only: the seconds from the send to each member's last block, by rank. The value is 0 for the
  /// root and for a member that did not get all blocks.
  std::vector<double> delivered_seconds;
};

/// Sends one file from the root to every other member, with the product's own cores.
///
/// With packets, the session, the relay and the RC core run over the simulated network. The run checks:
/// - Every live member ends with the exact bytes. After the loss of the root this applies if the live members
///   together have every block.
/// - A dead member is named.
/// - The first epoch that ends at a member after a death ends within 1 s.
/// - Nothing is delivered twice or written to a wrong address.
/// - The run ends.
///
/// With blocks, the relay alone runs over a fluid network, and no member dies. The run checks:
/// - Every member gets every block once.
/// - No block is written to memory that was not granted, or over another block that is still needed.
/// - The run ends.
ScenarioResult run_bcast(const ScenarioOptions& options);
/// The two models. run_bcast() calls one of them.
ScenarioResult run_packets(const ScenarioOptions& options);
ScenarioResult run_blocks(const ScenarioOptions& options);

}  // namespace rdmc::sim_app

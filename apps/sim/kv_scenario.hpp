// rdmc_sim kv: the servers of a replicated key-value service run the product's own cores, in memory, while
// faults strike. What their clients see must be linearizable. The scenario is a function of its options.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "apps/sim/scenario.hpp"

namespace rdmc::sim_app {

enum class KvFault : std::uint8_t {
  kill,             ///< A server dies, and is started again after up to 4 s, without any data.
  restart,          ///< A server dies and is started again at once.
  leave_out,        ///< The group goes on without a server that lives, because it does not hear the server.
  pause,            ///< A server is stopped for up to 300 ms. The others wait for it.
  pause_leave_out,  ///< A server, mostly the main, is stopped for up to 4 s. The others go on without it.
  slow,             ///< A server executes no events for up to 300 ms. Its network part goes on.
  clock,            ///< The clock of a server jumps by up to 10 s, forward or back.
  transfer,         ///< A server dies and is started again, and the next transfer of the state fails.
  disconnect,       ///< A client closes its connection while it waits for replies.
};
inline constexpr std::array kKvFaults{
    std::string_view("kill"),  std::string_view("restart"),         std::string_view("leave_out"),
    std::string_view("pause"), std::string_view("pause_leave_out"), std::string_view("slow"),
    std::string_view("clock"), std::string_view("transfer"),        std::string_view("disconnect")};

/// Bugs that a test puts in, to see whether the scenario finds them.
struct KvPlanted {
  bool answers_before_stable = false;
  bool reads_anywhere = false;       ///< Every server answers reads from its own data.
  bool reads_without_lease = false;  ///< A main answers reads without may_answer().
  bool applies_twice = false;        ///< Some events are executed twice, at all servers.
  bool forgets_watches = false;      ///< A state that is transferred has no watched keys.
  bool expires_by_own_clock = false;

  friend bool operator==(const KvPlanted&, const KvPlanted&) = default;
};

struct KvOptions {
  std::uint64_t seed = 1;
  std::uint32_t members = 3;  ///< the servers, 1 to 9; more than half of them must have the state
  std::uint32_t clients = 5;
  /// The number of times that each fault strikes, at random moments.
  std::array<std::uint32_t, kKvFaults.size()> strikes{};
  /// The number of steps in which clients send requests and faults strike. In a step, one process or one
  /// client does one thing. If a fault cannot strike yet, there are more steps.
  std::uint64_t steps = 6000;
  KvPlanted planted{};

  std::uint32_t& operator[](KvFault fault) { return strikes[static_cast<std::size_t>(fault)]; }
};

/// Runs the scenario. The run checks:
/// - What the clients see is linearizable. At the end, a client reads all keys at each server, so no write
///   that was acknowledged may be missing. A request that was refused has no effect.
/// - A key with a deadline expires once, at all servers, and not before and not long after its deadline. If
///   the clocks jump, it may expire at any time.
/// - What AgreedInput promises (see StateWorld).
/// - After the faults, all servers have the state, all clients have all replies, and the saved states of all
///   servers are the same bytes.
///
/// The figures are: operations, given_up (transactions whose watched key had changed), refused and uncertain
/// (operations with an error), reads_at_main (without the order), transfers, takeovers, expired.
/// unchecked is 1 if the history has too many possible orders to check.
ScenarioResult run_kv(const KvOptions& options);

}  // namespace rdmc::sim_app

// The run of the scenario kv: the servers, their clients, the faults and the checks at the end.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/sim/kv_host.hpp"

namespace rdmc::sim_app {

class KvWorld {
 public:
  explicit KvWorld(const KvOptions& options);

  void run();
  ScenarioResult result();

 private:
  /// A fault that will strike.
  struct Planned {
    KvFault fault;
    std::uint64_t step;  // at this step, or at a later one if it is not possible then
  };

  std::uint64_t below(std::uint64_t most) { return random_.below(most); }
  bool chance(std::uint64_t one_in) { return below(one_in) == 0; }
  KvHost& any_running();
  KvHost* host_of(MemberId member);
  /// True if the server takes part, and another one in the group has the state and is not paused. So the
  /// state is not lost without this server.
  bool can_do_without(const KvHost& host);
  bool is_another_paused(const KvHost& host);
  KvHost& choose_victim();

  void step();
  void start_dead();

  // Faults: kv_faults.cpp.
  void plan_faults();
  void strike_due();
  /// Returns false if the fault cannot strike now.
  bool strike(KvFault fault);
  bool pause_and_leave_out(KvHost& host);
  std::int64_t up_to(std::uint64_t milliseconds);
  void heal();

  // The checks.
  bool is_settled();
  void settle();
  void read_everywhere();
  void compare_states();
  void check_history();
  void violation(const std::string& what);

  const KvOptions options_;
  Random random_;
  sim::Trace trace_;
  StateWorld world_;
  std::vector<std::unique_ptr<KvHost>> hosts_;
  KvClients clients_;
  std::vector<Planned> planned_;
  std::array<std::uint64_t, kKvFaults.size()> struck_{};
  std::int64_t pace_;   // the longest time of a step, in nanoseconds
  std::int64_t began_;  // the time of the world
  std::uint64_t steps_ = 0, repair_one_in_ = 200, is_unchecked_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace rdmc::sim_app

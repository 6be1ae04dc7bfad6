// rdmc_sim views: a group keeps its view while faults strike, and agrees on a new view when they stop. The
// scenario is a function of its options.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "apps/sim/scenario.hpp"
#include "controlplane/view/types.hpp"

namespace rdmc::sim_app {

enum class ViewsFault : std::uint8_t {
  kill,            ///< A process dies, and its peers are notified: end of stream, port unreachable.
  kill_in_change,  ///< Like kill, for a member that is proposing a view.
  silence,         ///< A host is disconnected from the network for a while.
  silent_death,    ///< A process dies without a notification.
  pause,           ///< A process is stopped for 0.3 to 2 s.
  short_pause,     ///< A process is stopped for 300 ms.
  partition,       ///< The hosts are divided into two parts that do not reach each other.
  one_way,         ///< Messages from one host to another are lost.
  deaf,            ///< A host receives nothing, but its messages reach all others.
  flap,            ///< The network between two hosts fails and returns, every 50 to 400 ms.
  store_outage,    ///< No process reaches the store.
  store_cut,       ///< One host does not reach the store.
  /// Half of the store's answers are lost, after the store has executed the request.
  lost_answers,
  clock_jump,     ///< A process's clock jumps by up to 10 s in either direction.
  leave,          ///< A process leaves in order.
  store_late,     ///< The store takes up to 1.5 s for an answer, longer than any process waits.
  store_refuses,  ///< The store refuses nine of ten requests.
  store_back,     ///< The store shows a view from one to three epochs ago.
  /// A process restarts, disconnected from the network. It reaches only the store.
  cut_newcomer,
  refused,  ///< Like cut_newcomer, but a firewall answers that no process listens at the members' addresses.
  /// A process outside the group joins with the address of one of the group's hosts. In half of the cases it
  /// also claims the machine of that host.
  same_address,
  /// A process's network thread gets no processor time for 0.3 to 2 s. Its other threads run.
  starve,
  suspend,  ///< A machine is suspended for 0.3 to 2 s; see ViewsOptions::clock_stops.
  /// An operator removes a living member, through another member or in the store.
  operator_removes,
  /// Other members are informed falsely that no process listens at a living member's address.
  forged_refusal,
};
inline constexpr std::array kViewsFaults{
    std::string_view("kill"),          std::string_view("kill_in_change"),
    std::string_view("silence"),       std::string_view("silent_death"),
    std::string_view("pause"),         std::string_view("short_pause"),
    std::string_view("partition"),     std::string_view("one_way"),
    std::string_view("deaf"),          std::string_view("flap"),
    std::string_view("store_outage"),  std::string_view("store_cut"),
    std::string_view("lost_answers"),  std::string_view("clock_jump"),
    std::string_view("leave"),         std::string_view("store_late"),
    std::string_view("store_refuses"), std::string_view("store_back"),
    std::string_view("cut_newcomer"),  std::string_view("refused"),
    std::string_view("same_address"),  std::string_view("starve"),
    std::string_view("suspend"),       std::string_view("operator_removes"),
    std::string_view("forged_refusal")};

struct ViewsOptions {
  std::uint64_t seed = 1;
  std::uint32_t members = 5;
  /// The number of times that each fault strikes, at random moments of the time in which faults strike.
  std::array<std::uint32_t, kViewsFaults.size()> strikes{};
  /// Most dead processes are started again at the same address, after up to 1 s.
  bool restarts = true;
  sim::FaultRates rates{};  ///< The fault rates of datagrams during the time in which faults strike.
  Duration faulty_time = seconds(2);
  /// The term of each member's lease, or 0 for no leases. With leases, clocks behave like CLOCK_BOOTTIME:
  /// they continue while the machine is suspended, and they never jump. Their rates differ. A clock_jump then
  /// suspends the machine instead.
  Duration lease{};
  /// True if the clock behaves like CLOCK_MONOTONIC: it stops while the machine is suspended.
  bool clock_stops = false;
  /// If true, each view gives the next member, instead of the oldest member, the right to serve what only one
  /// member serves.
  bool rotate = false;
  view::Timing timing{};

  std::uint32_t& operator[](ViewsFault fault) { return strikes[static_cast<std::size_t>(fault)]; }
};

/// The time within which, after the faults have stopped, all live processes must be in one view that has no
/// other members. It covers the takeover of a dead group, and the longest time of every other wait.
inline constexpr Duration kSettledWithin = seconds(10);

/// Runs the scenario. The run checks:
/// - There is one view of each epoch, and the store has accepted it before any process acts on it.
/// - Epochs only grow.
/// - No process accepts data of an epoch if the process itself or the sender is not in that epoch.
/// - The group forms, and it settles after the faults.
/// - With leases, no two processes may serve at the same instant what only one member serves. In a settled
///   view, one process may.
///
/// The figures are: views, removals (of living processes), healthy_removals (of processes that were never
/// stopped or starved), claims, removal_us (the longest time from a member's death until every member has a
/// view without it), settled_us, delivered, handovers (the number of times that another process serves than
/// before), waits (views that report which leases may still be held), listeners_asked and
/// address_claims_denied (the sums over all processes, see FailureView::Counters).
ScenarioResult run_views(const ViewsOptions& options);

}  // namespace rdmc::sim_app

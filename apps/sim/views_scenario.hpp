// rdmc_sim views: a group that keeps its view while everything goes wrong, and settles on a new one when it
// stops. A function of its options, as every scenario.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "apps/sim/scenario.hpp"
#include "controlplane/view/types.hpp"

namespace rdmc::sim_app {

enum class ViewsFault : std::uint8_t {
  kill,              ///< its death is signalled: end of stream, port unreachable
  kill_in_change,    ///< the same, to a member at the moment that it proposes a view
  silence,           ///< a host is off the network for a while, then on again
  silent_death,      ///< a host dies without a signal
  pause,             ///< a process is stopped for 0.3 to 2 s
  short_pause,       ///< … for 300 ms
  partition,         ///< the hosts fall into two parts
  one_way,           ///< nothing from one host reaches another
  deaf,              ///< nothing reaches a host, while all hear it
  flap,              ///< a link between two hosts comes and goes every 50 to 400 ms
  store_outage,      ///< nobody reaches the store
  store_cut,         ///< one host does not
  lost_answers,      ///< the store's, after it has done what it was asked, half of them
  clock_jump,        ///< a process's clock leaps up to 10 s, either way
  leave,             ///< a process leaves in order
  store_late,        ///< the store takes up to 1.5 s for an answer, longer than anybody waits
  store_refuses,     ///< nine of ten requests
  store_back,        ///< the store shows a view that stood one to three epochs ago
  cut_newcomer,      ///< a process is started anew where the network ends: only the store can be reached
  refused,           ///< the same behind a firewall that answers whom it keeps out: nobody listens there
  same_address,      ///< a process elsewhere wants to join, and names the address of a host of the group, and
                     ///< half of the times also its machine
  starve,            ///< a process's thread with the network is not scheduled for 0.3 to 2 s, the others are
  suspend,           ///< a machine sleeps for 0.3 to 2 s; see ViewsOptions::clock_stops
  operator_removes,  ///< a living member, through another member or in the store
  forged_refusal,    ///< others are told that nobody listens where a living member does
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
  /// How often each fault strikes, at random moments of the faulty time.
  std::array<std::uint32_t, kViewsFaults.size()> strikes{};
  bool restarts = true;     ///< the dead are started again at the same address, most of them, after up to 1 s
  sim::FaultRates rates{};  ///< of datagrams, during the faulty time
  Duration faulty_time = seconds(2);
  /// The term of each member's lease. With leases clocks are as CLOCK_BOOTTIME: they go on while the machine
  /// sleeps and never jump (a clock_jump is a suspend), and their rates differ.
  Duration lease{};
  bool clock_stops = false;  ///< the clock is as CLOCK_MONOTONIC instead: it stands still meanwhile
  bool rotate = false;       ///< each view gives what one member serves to the next member, not to the oldest
  view::Timing timing{};

  std::uint32_t& operator[](ViewsFault fault) { return strikes[static_cast<std::size_t>(fault)]; }
};

/// Once faults have stopped, everybody alive must be in one view of them alone within this: the takeover of a
/// group that is dead, and then the worst of every other wait.
inline constexpr Duration kSettledWithin = seconds(10);

/// What it demands: one view of each epoch, agreed in the store before anybody acts on it; epochs only rise;
/// nobody takes in anything of an epoch that it, or the sender, is not in; the group forms; it settles after
/// the faults; with leases, that no two processes serve at any instant what is one member's, and that one
/// does in a settled view. Figures: views, removals (of living processes), healthy_removals (of those that
/// were never stopped or starved), claims, removal_us (the longest time from a member's death to the view
/// without it everywhere), settled_us, delivered, fenced, handovers (how often another process serves than
/// before), waits (views that say what may still be held),
/// listeners_asked and address_claims_denied (of all processes, see FailureView::Counters).
ScenarioResult run_views(const ViewsOptions& options);

}  // namespace rdmc::sim_app

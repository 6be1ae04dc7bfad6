#include "dataplane/sim/fluid_rates.hpp"

#include <algorithm>
#include <cassert>
#include <limits>

namespace rdmc::sim {
namespace {

/// Rates that differ by no more than this factor count as equal, because they may be sums of the same
/// numbers in a different order.
constexpr double kSame = 1 + 1e-9;

}  // namespace

LinkId FluidRates::add_link(double capacity) {
  assert(capacity > 0);
  links_.push_back({.capacity = capacity, .flows = {}});
  return LinkId{static_cast<std::uint32_t>(links_.size() - 1)};
}

void FluidRates::start(std::uint32_t flow, std::span<const LinkId> through, double limit) {
  assert(through.size() <= kMostLinks && limit > 0);
  if (flow >= flows_.size()) flows_.resize(flow + 1);
  Flow& started = flows_[flow];
  assert(started.links == 0);
  started.limit = limit;
  started.rate = 0;
  for (const LinkId link : through) {
    const auto index = static_cast<std::uint32_t>(link);
    started.through[started.links++] = index;
    links_[index].flows.push_back(flow);
    touch(index);
  }
}

void FluidRates::stop(std::uint32_t flow) {
  for (const std::uint32_t link : flows_[flow].route()) {
    auto& flows = links_[link].flows;
    flows.erase(std::ranges::find(flows, flow));
    touch(link);
  }
  flows_[flow].links = 0;
}

void FluidRates::touch(std::uint32_t link) {
  if (links_[link].seen) return;
  links_[link].seen = true;
  reached_links_.push_back(link);
}

/// Completes the list of reached links: adds every link that shares a flow, directly or indirectly, with a
/// link in the list. Prepares these links and lists their flows.
void FluidRates::collect() {
  for (std::size_t i = 0; i < reached_links_.size(); ++i) {
    Link& link = links_[reached_links_[i]];
    link.left = link.capacity;
    link.open = link.flows.size();
    for (const std::uint32_t flow : link.flows) {
      if (flows_[flow].seen) continue;
      flows_[flow].seen = true;
      reached_flows_.push_back(flow);
      for (const std::uint32_t other : flows_[flow].route()) touch(other);
    }
  }
}

/// Returns the rate to which all open flows can rise together before a link is full or a flow has reached
/// its limit.
double FluidRates::next_level() {
  double level = std::numeric_limits<double>::infinity();
  for (const std::uint32_t flow : open_flows_) level = std::min(level, flows_[flow].limit);
  for (const std::uint32_t index : reached_links_) {
    const Link& link = links_[index];
    if (link.open != 0) level = std::min(level, link.left / static_cast<double>(link.open));
  }
  for (const std::uint32_t index : reached_links_) {
    Link& link = links_[index];
    link.full = link.open != 0 && link.left <= level * static_cast<double>(link.open) * kSame;
  }
  return level;
}

/// Closes the flows whose rate cannot rise above `level`, and sets their rate to `level`.
void FluidRates::settle(double level) {
  std::erase_if(open_flows_, [&](std::uint32_t index) {
    Flow& flow = flows_[index];
    const bool held =
        std::ranges::any_of(flow.route(), [&](std::uint32_t link) { return links_[link].full; });
    if (!held && flow.limit > level * kSame) return false;
    if (flow.rate != level) changed_.push_back(index);
    flow.rate = level;
    for (const std::uint32_t link : flow.route()) {
      links_[link].left -= level;
      --links_[link].open;
    }
    return true;
  });
}

std::span<const std::uint32_t> FluidRates::balance() {
  changed_.clear();
  collect();
  open_flows_ = reached_flows_;
  while (!open_flows_.empty()) settle(next_level());
  for (const std::uint32_t flow : reached_flows_) flows_[flow].seen = false;
  for (const std::uint32_t link : reached_links_) links_[link].seen = false;
  reached_flows_.clear();
  reached_links_.clear();
  return changed_;
}

}  // namespace rdmc::sim

// Max-min fair rates of flows through links that they share, kept up to date as flows come and go: each flow
// gets what the fullest of its links can give it, and what one flow cannot use is left to the others
// (Bertsekas and Gallager, Data Networks, 6.5.2). Only the flows that a change can reach are looked at. Plain
// values; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rdmc::sim {

enum class LinkId : std::uint32_t {};

/// Flows are numbered by the caller, densely from 0. Rates are in the caller's unit, above 0.
class FluidRates {
 public:
  static constexpr std::size_t kMostLinks = 3;  ///< that one flow goes through

  LinkId add_link(double capacity);
  /// `through`: at most kMostLinks, each once. `limit`: the most this flow can take by itself. Its rate is 0
  /// until the next balance().
  void start(std::uint32_t flow, std::span<const LinkId> through, double limit);
  void stop(std::uint32_t flow);
  /// Gives every flow that a start or stop since the last call may have touched its rate; the flows whose
  /// rate is another now, in an order that depends on nothing but the calls. Valid until the next call.
  std::span<const std::uint32_t> balance();
  double rate(std::uint32_t flow) const { return flows_[flow].rate; }

 private:
  struct Link {
    double capacity = 0;
    std::vector<std::uint32_t> flows;
    // While balancing: what no flow has been given, and to how many flows it is open.
    double left = 0;
    std::size_t open = 0;
    bool full = false;
    bool seen = false;
  };
  struct Flow {
    std::uint32_t through[kMostLinks] = {};
    std::uint8_t links = 0;
    bool seen = false;
    double limit = 0;
    double rate = 0;
    std::span<const std::uint32_t> route() const { return {through, links}; }
  };

  void touch(std::uint32_t link);
  void collect();
  double next_level();
  void settle(double level);

  std::vector<Link> links_;
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> reached_links_, reached_flows_, open_flows_, changed_;
};

}  // namespace rdmc::sim

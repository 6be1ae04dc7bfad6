// Computes max-min fair rates of flows through links that they share (Bertsekas and Gallager, Data Networks,
// 6.5.2), while flows start and stop. Each flow gets the share that its most loaded link can give. If a flow
// cannot use its share of a link, the other flows get the rest. After a change, only the rates that the
// change can affect are computed again. The class has plain values only. Only one thread may use an object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rdmc::sim {

enum class LinkId : std::uint32_t {};

/// The caller numbers the flows from 0, without gaps. Rates are above 0, in a unit that the caller chooses.
class FluidRates {
 public:
  static constexpr std::size_t kMostLinks = 3;  ///< the largest number of links of one flow

  LinkId add_link(double capacity);
  /// Starts a flow through the links `through`: at most kMostLinks, each of them once. The rate of the flow
  /// never exceeds `limit`, even if it is the only flow. Its rate is 0 until the next balance().
  void start(std::uint32_t flow, std::span<const LinkId> through, double limit);
  void stop(std::uint32_t flow);
  /// Computes the rates of all flows that a start or stop since the last call can affect. Returns the flows
  /// whose rate has changed. Their order depends only on the calls. The result is valid until the next call.
  std::span<const std::uint32_t> balance();
  double rate(std::uint32_t flow) const { return flows_[flow].rate; }

 private:
  struct Link {
    double capacity = 0;
    std::vector<std::uint32_t> flows;
    // Used only during balance(): the capacity that no flow has been given, and the number of open flows on
    // the link.
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

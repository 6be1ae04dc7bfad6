#include "dataplane/sim/fluid_rates.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <numeric>
#include <set>

BOOST_AUTO_TEST_SUITE(fluid_rates_test)

using namespace rdmc::sim;

namespace {

struct Flow {
  std::vector<LinkId> through;
  double limit = 0;
};

/// Links of random capacities with flows that start and stop. It checks the rates after each change.
class Links {
 public:
  Links() {
    const auto count = *rc::gen::inRange<std::size_t>(1, 8);
    for (std::size_t i = 0; i < count; ++i) {
      capacities_.push_back(*rc::gen::inRange(1, 1000));
      links_.push_back(rates_.add_link(capacities_.back()));
    }
  }

  void change() {
    const auto flow = *rc::gen::inRange<std::uint32_t>(0, 12);
    if (flows_.erase(flow) != 0) return rates_.stop(flow);
    std::set<std::size_t> through;
    const auto hops = *rc::gen::inRange<std::size_t>(1, FluidRates::kMostLinks + 1);
    for (std::size_t i = 0; i < hops; ++i) through.insert(*rc::gen::inRange<std::size_t>(0, links_.size()));
    Flow& started = flows_[flow];
    for (const std::size_t link : through) started.through.push_back(links_[link]);
    started.limit = *rc::gen::inRange(1, 500);
    rates_.start(flow, started.through, started.limit);
  }

  /// Checks that the rates are max-min fair: the rate of a flow can be raised only by lowering another flow
  /// whose rate is not higher (Bertsekas and Gallager, 6.5.2).
  void check() {
    const auto changed = rates_.balance();
    for (const std::uint32_t flow : changed) told_[flow] = rates_.rate(flow);
    for (const auto& [number, flow] : flows_) {
      RC_ASSERT(told_[number] == rates_.rate(number));
      const bool at_its_limit = rates_.rate(number) >= flow.limit * (1 - 1e-6);
      RC_ASSERT(rates_.rate(number) <= flow.limit * (1 + 1e-6));
      const bool held_up =
          std::ranges::any_of(flow.through, [&](LinkId link) { return is_bottleneck(link, number); });
      RC_ASSERT(at_its_limit || held_up);
    }
    for (const LinkId link : links_) RC_ASSERT(load(link) <= capacity(link) * (1 + 1e-6));
  }

 private:
  double capacity(LinkId link) const { return capacities_[static_cast<std::size_t>(link)]; }
  bool goes_through(const Flow& flow, LinkId link) const {
    return std::ranges::find(flow.through, link) != flow.through.end();
  }
  double load(LinkId link) const {
    return std::accumulate(flows_.begin(), flows_.end(), 0.0, [&](double sum, const auto& entry) {
      return goes_through(entry.second, link) ? sum + rates_.rate(entry.first) : sum;
    });
  }
  bool is_bottleneck(LinkId link, std::uint32_t flow) const {
    return load(link) >= capacity(link) * (1 - 1e-6) && std::ranges::all_of(flows_, [&](const auto& entry) {
             return !goes_through(entry.second, link) ||
                    rates_.rate(entry.first) <= rates_.rate(flow) * (1 + 1e-6);
           });
  }

  FluidRates rates_;
  std::vector<double> capacities_;
  std::vector<LinkId> links_;
  std::map<std::uint32_t, Flow> flows_;
  std::map<std::uint32_t, double> told_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(rates_are_max_min_fair_whatever_comes_and_goes) {
  const bool held = rc::check("max-min fair", [] {
    Links links;
    const auto changes = *rc::gen::inRange(1, 60);
    for (int i = 0; i < changes; ++i) {
      links.change();
      if (*rc::gen::arbitrary<bool>()) links.check();
    }
    links.check();
  });
  BOOST_TEST(held);
}

BOOST_AUTO_TEST_CASE(what_one_flow_cannot_use_is_left_to_the_others) {
  FluidRates rates;
  const LinkId link = rates.add_link(10);
  rates.start(0, std::vector{link}, 2);
  rates.start(1, std::vector{link}, 100);
  rates.start(2, std::vector{link}, 100);
  rates.balance();
  BOOST_TEST(rates.rate(0) == 2.0);
  BOOST_TEST(rates.rate(1) == 4.0);
  BOOST_TEST(rates.rate(2) == 4.0);
}

BOOST_AUTO_TEST_CASE(only_flows_that_a_change_reaches_are_told) {
  FluidRates rates;
  const LinkId near = rates.add_link(10), far = rates.add_link(10);
  rates.start(0, std::vector{near}, 100);
  rates.start(1, std::vector{far}, 100);
  rates.balance();
  rates.start(2, std::vector{near}, 100);
  const auto changed = rates.balance();
  BOOST_TEST(std::set(changed.begin(), changed.end()) == (std::set<std::uint32_t>{0, 2}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()

#include "dataplane/sim/fluid_network.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

namespace rdmc::sim {
namespace {

// An event's argument has three parts: its kind, its plan number, and the index of a host, a flow or an
// arrival.
constexpr std::uint64_t kKindBits = 2;
constexpr std::uint64_t kPlanBits = 30;
constexpr std::uint32_t kPlanMask = (std::uint32_t{1} << kPlanBits) - 1;

constexpr double bytes_per_nanosecond(std::uint64_t bits_per_second) {
  return static_cast<double>(bits_per_second) / 8e9;
}

Duration time_for(double bytes, double rate) {
  return nanoseconds(static_cast<std::int64_t>(std::ceil(bytes / rate)));
}

}  // namespace

FluidNetwork::FluidNetwork(Simulation& simulation, const FluidOptions& options)
    : simulation_(simulation), options_(options), random_(simulation.random().next()), racks_(1) {}

RackId FluidNetwork::add_rack(std::uint64_t uplink) {
  const double rate = bytes_per_nanosecond(uplink);
  racks_.push_back({.up = rates_.add_link(rate), .down = rates_.add_link(rate)});
  return RackId{static_cast<std::uint32_t>(racks_.size() - 1)};
}

HostId FluidNetwork::add_host(std::uint64_t bits_per_second, RackId rack, FluidEndpoint& endpoint) {
  const double rate = bytes_per_nanosecond(bits_per_second);
  hosts_.push_back({.endpoint = &endpoint, .rate = rate, .rack = rack, .ingress = rates_.add_link(rate)});
  return HostId{static_cast<std::uint32_t>(hosts_.size() - 1)};
}

void FluidNetwork::limit_path(HostId a, HostId b, std::uint64_t bits_per_second) {
  path(hosts_[value_of(a)], b).limit = path(hosts_[value_of(b)], a).limit =
      bytes_per_nanosecond(bits_per_second);
}

FluidNetwork::Path& FluidNetwork::path(Host& from, HostId to) {
  const auto known = std::ranges::find(from.paths, to, &Path::to);
  if (known != from.paths.end()) return *known;
  return from.paths.emplace_back(Path{.to = to, .limit = from.rate});
}

void FluidNetwork::send(HostId from, HostId to, std::uint64_t bytes, std::uint64_t tag) {
  assert(from != to);
  Host& host = hosts_[value_of(from)];
  host.queue.push_back({to, bytes, tag});
  start_next(value_of(from));
}

void FluidNetwork::signal(HostId from, HostId to, std::uint64_t tag) {
  travel(from, to, tag);
}

std::uint64_t FluidNetwork::argument_of(Kind kind, std::size_t what, std::uint32_t plan) {
  return what << (kKindBits + kPlanBits) | std::uint64_t{plan} << kKindBits |
         static_cast<std::uint64_t>(kind);
}

/// Starts a transfer of the host's queue: the first one to a receiver to which this host has no transfer in
/// flight.
void FluidNetwork::start_next(std::uint32_t index) {
  Host& host = hosts_[index];
  if (host.is_sending) return;
  const auto next =
      std::ranges::find_if(host.queue, [&](const Queued& one) { return !path(host, one.to).is_busy; });
  if (next == host.queue.end()) return;
  const Queued one = *next;
  host.queue.erase(next);
  host.is_sending = true;
  Path& way = path(host, one.to);
  way.is_busy = true;
  const Host& receiver = hosts_[value_of(one.to)];
  const auto bytes = static_cast<double>(one.bytes);
  const std::size_t flow = flows_.put({HostId{index}, one.to, one.tag, bytes, 0, simulation_.now(), 0});
  std::array<LinkId, FluidRates::kMostLinks> through{receiver.ingress};
  std::size_t links = 1;
  if (host.rack != receiver.rack) {
    if (value_of(host.rack) != 0) through[links++] = racks_[value_of(host.rack)].up;
    if (value_of(receiver.rack) != 0) through[links++] = racks_[value_of(receiver.rack)].down;
  }
  const double limit = std::min(host.rate, way.limit);
  rates_.start(static_cast<std::uint32_t>(flow), std::span(through).first(links), limit);
  replan();
  simulation_.schedule(simulation_.now() + time_for(bytes, limit), *this, argument_of(Kind::left, index));
}

/// Schedules a new end for each flow whose rate has changed.
void FluidNetwork::replan() {
  const Time now = simulation_.now();
  for (const std::uint32_t index : rates_.balance()) {
    Flow& flow = flows_[index];
    flow.left = std::max(0.0, flow.left - flow.flowing * static_cast<double>((now - flow.since).ns));
    flow.since = now;
    flow.flowing = rates_.rate(index);
    flow.plan = next_plan_++ & kPlanMask;
    simulation_.schedule(now + time_for(flow.left, flow.flowing), *this,
                         argument_of(Kind::through, index, flow.plan));
  }
}

void FluidNetwork::finish(std::uint32_t index) {
  const Flow done = flows_.take(index);
  rates_.stop(index);
  replan();
  simulation_.trace().record(simulation_.now(), TraceKind::transfer_left, value_of(done.from),
                             value_of(done.to), done.tag);
  travel(done.from, done.to, done.tag);
  path(hosts_[value_of(done.from)], done.to).is_busy = false;
  start_next(value_of(done.from));
}

void FluidNetwork::travel(HostId from, HostId to, std::uint64_t tag) {
  Time at = simulation_.now() + options_.delay;
  if (options_.jitter.ns > 0)
    at = at + nanoseconds(
                  static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(options_.jitter.ns))));
  Time& last = path(hosts_[value_of(from)], to).last_arrival;
  last = std::max(last, at);
  simulation_.schedule(last, *this, argument_of(Kind::arrived, arrivals_.put({from, to, tag})));
}

void FluidNetwork::arrive(std::size_t index) {
  const Arrival arrival = arrivals_.take(index);
  simulation_.trace().record(simulation_.now(), TraceKind::transfer_arrived, value_of(arrival.from),
                             value_of(arrival.to), arrival.tag);
  hosts_[value_of(arrival.to)].endpoint->on_arrival(arrival.from, arrival.tag);
}

void FluidNetwork::on_event(std::uint64_t argument) {
  const auto index = static_cast<std::uint32_t>(argument >> (kKindBits + kPlanBits));
  switch (static_cast<Kind>(argument & ((1 << kKindBits) - 1))) {
    case Kind::left: hosts_[index].is_sending = false; return start_next(index);
    case Kind::through:
      if (((argument >> kKindBits) & kPlanMask) == flows_[index].plan) finish(index);
      return;
    case Kind::arrived: return arrive(index);
  }
}

}  // namespace rdmc::sim

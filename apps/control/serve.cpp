#include "apps/control/serve.hpp"

#include <poll.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "apps/control/metrics.hpp"
#include "apps/control/pulse.hpp"
#include "apps/control/view_json.hpp"
#include "apps/program/metrics_server.hpp"

namespace rdmc::control_app {
namespace {

constexpr int kPulseMs = 500;

/// Waits for a signal. Errors: the reason for which the node has ended its part in the store.
Result<void> wait(int signals, Pulse& pulse, const store::StoreNode& node, control::ControlLoop& loop) {
  // The service manager may expect a message in each watchdog period. The interval is half of that period.
  std::uint64_t period_us = 0;
  const bool watched = ::sd_watchdog_enabled(0, &period_us) > 0;
  const int every_ms =
      watched ? static_cast<int>(std::clamp<std::uint64_t>(period_us / 2000, 1, kPulseMs)) : kPulseMs;
  pollfd event{signals, POLLIN, 0};
  do {
    if (pulse.beat(node, loop) && watched) ::sd_notify(0, "WATCHDOG=1");
    if (const auto ending = pulse.latest().status.ending) return std::unexpected(*ending);
  } while (::poll(&event, 1, every_ms) <= 0);
  return {};
}

Result<store::NodeOptions> node_options(const ServeOptions& options, const control::Security& security) {
  store::NodeOptions node{.directory = options.directory,
                          .self = options.self,
                          .nodes = {},
                          .listen = {},
                          .channel = {.channel = {.security = security}}};
  auto nodes = parse_addresses(options.nodes, kStorePort);
  if (!nodes) return std::unexpected(nodes.error());
  node.nodes = std::move(*nodes);
  if (options.listen.empty() && options.self < node.nodes.size()) {
    node.listen = node.nodes[options.self];
    return node;
  }
  const auto listen = parse_address(options.listen.empty() ? kAlone : options.listen, kStorePort);
  if (!listen) return std::unexpected(listen.error());
  node.listen = *listen;
  return node;
}

}  // namespace

Error serve(const ServeOptions& options, Printer& printer, int signals) {
  auto security = control::security_of(options.identity);
  if (!security) return security.error();
  const auto node_wanted = node_options(options, *security);
  if (!node_wanted) return node_wanted.error();
  const auto loop = control::ControlLoop::create();
  if (!loop) return loop.error();
  const auto node = store::StoreNode::start(**loop, *node_wanted);
  if (!node) return node.error();
  Pulse pulse;
  const control::IdentityWatch identity(**loop, *security, [&](const Result<void>& readable) {
    printer.print(STDERR_FILENO, complaint(control::words_about_identity(readable)));
  });
  const auto metrics = MetricsServer::open(
      **loop, options.metrics, [&] { return exposition(options.self, pulse.latest(), identity); });
  if (!metrics) return metrics.error();
  const std::string address = to_string((*node)->address());
  Json listening{{"event", "listening"}, {"address", address}};
  if (*metrics) listening["metrics"] = to_string((*metrics)->address());
  if (options.json) print_json(listening);
  complain("a node of the store listens on " + address);
  ::sd_notify(0, "READY=1");
  const auto ended = wait(signals, pulse, **node, **loop);
  if (!ended) return ended.error();
  ::sd_notify(0, "STOPPING=1");
  // The process ends at once and closes nothing in order. All acknowledged data is on the disk, so there is
  // nothing that it must wait for.
  ::_exit(0);
}

}  // namespace rdmc::control_app

#include "apps/control/serve.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "apps/control/metrics.hpp"
#include "apps/control/metrics_server.hpp"
#include "apps/control/printer.hpp"
#include "apps/control/pulse.hpp"
#include "apps/control/service_manager.hpp"
#include "apps/control/view_json.hpp"

namespace rdmc::control_app {
namespace {

constexpr int kPulseMs = 500;

/// Until there is a signal.
void wait(int signals, Pulse& pulse, store::RaftNode& node, control::ControlLoop& loop) {
  const auto limit = watchdog_limit();
  // The manager wants a word in half its time; what hangs for the other half is ended.
  const int every_ms =
      limit ? static_cast<int>(std::clamp<std::int64_t>(limit->ns / milliseconds(2).ns, 1, kPulseMs))
            : kPulseMs;
  pollfd event{signals, POLLIN, 0};
  do {
    if (pulse.beat(node, loop) && limit) notify("WATCHDOG=1");
  } while (::poll(&event, 1, every_ms) <= 0);
}

}  // namespace

Error serve(const ServeOptions& options, int signals) {
  const auto listen = parse_address(options.listen, 7701);
  if (!listen) return listen.error();
  const auto nodes = parse_addresses(options.nodes.empty() ? "127.0.0.1:0" : options.nodes, 7702);
  if (!nodes) return nodes.error();
  auto security = control::security_of(options.identity);
  if (!security) return security.error();
  const auto loop = control::ControlLoop::create();
  if (!loop) return loop.error();
  std::atomic<store::StoreServer*> serving = nullptr;
  const auto node =
      store::RaftNode::start({.directory = options.directory, .self = options.self, .nodes = *nodes},
                             [&](const std::string& group, Epoch epoch) {
                               if (store::StoreServer* const server = serving) server->changed(group, epoch);
                             });
  if (!node) return node.error();
  const auto server =
      store::StoreServer::listen(**loop, *listen, {.channel = {.security = *security}}, **node);
  if (!server) return server.error();
  serving = server->get();
  Pulse pulse;
  Printer errors(STDERR_FILENO);
  const control::IdentityWatch identity(**loop, *security, [&](const Result<void>& readable) {
    errors.print("rdmc_control: " + control::words_about_identity(readable));
  });
  const auto metrics = MetricsServer::open(**loop, options.metrics, [&] {
    return exposition(options.self, pulse.latest(), (*server)->traffic(), identity);
  });
  if (!metrics) return metrics.error();
  const std::string address = to_string((*server)->address());
  Json listening{{"event", "listening"}, {"address", address}};
  if (*metrics) listening["metrics"] = to_string((*metrics)->address());
  if (options.json) fmt::print("{}\n", listening.dump());
  fmt::print(stderr, "rdmc_control: a node of the store listens on {}\n", address);
  std::fflush(stdout);
  notify("READY=1");
  wait(signals, pulse, **node, **loop);
  notify("STOPPING=1");
  // Not in order: what was acknowledged is on the disk, and to wait for the rest would help nobody.
  ::_exit(0);
}

}  // namespace rdmc::control_app

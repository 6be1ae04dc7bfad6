#include "apps/replicated-kv/server/server.hpp"

#include <sys/epoll.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "apps/program/output.hpp"
#include "apps/replicated-kv/server/client_sockets.hpp"
#include "apps/replicated-kv/server/member_list.hpp"
#include "apps/replicated-kv/server/replica.hpp"
#include "controlplane/auth/random.hpp"

namespace rdmc::kv {

namespace {

/// The keys of the events of epoll that do not belong to clients.
constexpr std::uint64_t kSignalKey = 0, kReplicaKey = 1;
/// The loop looks around at least this often, in milliseconds.
constexpr Milliseconds kLongestWait = 50, kLongestWaitAlone = 1000;
constexpr int kMostEvents = 256;
/// A server uses at most this number of descriptors for other things than clients.
constexpr std::uint64_t kMostClients = 10'000, kOtherDescriptors = 128;

Moment read_clocks() {
  const auto since = [](auto time) {
    return std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
  };
  return {since(std::chrono::system_clock::now()), since(std::chrono::steady_clock::now())};
}

/// Each client needs a descriptor. Returns the number of clients that the server can have.
std::uint64_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMostClients;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return std::clamp<std::uint64_t>(limit.rlim_cur, kOtherDescriptors + 1, kMostClients + kOtherDescriptors) -
         kOtherDescriptors;
}

Result<void> watch(int epoll, int fd, std::uint64_t key) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = key}};
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) return fail_errno("epoll", errno);
  return {};
}

}  // namespace

Result<void> serve(const ServeOptions& options, StopSignals& signals) {
  const std::uint64_t most_clients = raise_descriptor_limit();
  std::uint64_t seed = 0;
  if (auto filled = control::fill_random(std::as_writable_bytes(std::span(&seed, 1))); !filled)
    return std::unexpected(filled.error());
  Service service({.is_alone = options.is_alone(),
                   .unavailable_after = options.unavailable_after,
                   .least_replicas = options.least_replicas,
                   .seed = seed});
  const Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return fail_errno("epoll_create1", errno);
  auto sockets = ClientSockets::listen(options.listen, epoll.get(), service);
  if (!sockets) return std::unexpected(sockets.error());
  service.settings().fix("maxclients", std::to_string(most_clients));
  service.settings().fix("port", std::to_string(sockets->address().port));
  if (!options.is_alone()) service.settings().fix(kMembersParameter, to_string(options.members));
  service.set_info({.port = sockets->address().port, .pid = static_cast<std::uint64_t>(::getpid())});
  if (auto watched = watch(epoll.get(), signals.descriptor(), kSignalKey); !watched) return watched;
  Replica replica(options, service);
  if (!options.is_alone()) {
    if (auto started = replica.start(read_clocks()); !started) return started;
    if (auto watched = watch(epoll.get(), replica.descriptor(), kReplicaKey); !watched) return watched;
  }
  if (options.json) print_json({{"event", "listening"}, {"address", to_string(sockets->address())}});
  complain("clients connect to " + to_string(sockets->address()));
  ::sd_notify(0, "READY=1");

  std::array<epoll_event, kMostEvents> events;
  for (;;) {
    const Milliseconds longest = options.is_alone() ? kLongestWaitAlone : kLongestWait;
    Milliseconds wait = longest;
    if (const auto deadline = service.next_deadline())
      wait = std::clamp<Milliseconds>(*deadline - read_clocks().steady, 0, longest);
    const int count = ::epoll_wait(epoll.get(), events.data(), events.size(), static_cast<int>(wait));
    const Moment now = read_clocks();
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if (event.data.u64 == kSignalKey && signals.take()) return {};
      sockets->on_event(event.data.u64, event.events, now);
    }
    for (const std::string& complaint : sockets->take_complaints()) complain(complaint);
    if (!options.is_alone()) {
      replica.work(now);
      for (const std::string& complaint : replica.take_complaints()) complain(complaint);
    }
    service.end_turn(now);
    sockets->write_changed(now);
  }
}

}  // namespace rdmc::kv

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
#include "apps/replicated-kv/server/access_files.hpp"
#include "apps/replicated-kv/server/client_sockets.hpp"
#include "apps/replicated-kv/server/local_order.hpp"
#include "apps/replicated-kv/server/member_list.hpp"
#include "apps/replicated-kv/server/replica.hpp"
#include "controlplane/auth/random.hpp"

namespace rdmc::kv {

namespace {

/// The keys of the events of epoll that do not belong to clients.
constexpr std::uint64_t kSignalKey = 0, kReplicaKey = 1, kLogKey = 2;
/// The loop looks around at least this often, in milliseconds.
constexpr Milliseconds kLongestWait = 50, kLongestWaitAlone = 1000;
constexpr int kMostEvents = 256;

Milliseconds wall_clock() {
  return std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Each client needs a descriptor.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Result<void> watch(int epoll, int fd, std::uint64_t key) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = key}};
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) return fail_errno("epoll", errno);
  return {};
}

/// The log of a server, if it has one, in the server's loop.
class Disk {
 public:
  /// Reads what the disk has into the service.
  Result<void> open(const ServeOptions& options, std::uint64_t seed, Service& service, int epoll) {
    if (options.directory.empty()) return {};
    logged_ = std::make_unique<LoggedService>(service);
    auto log =
        StateLog::open({.directory = options.directory, .syncs = options.syncs, .seed = seed}, *logged_);
    if (!log) return std::unexpected(log.error());
    log_ = std::move(*log);
    epoll_ = epoll;
    service_ = &service;
    return watch(epoll_, log_->descriptors().first, kLogKey);
  }

  StateLog* log() { return log_.get(); }

  /// Must be called at the end of each turn.
  void end_turn(Milliseconds now) {
    if (!log_) return;
    log_->set_least_log_bytes(
        static_cast<std::uint64_t>(service_->settings().number("auto-aof-rewrite-min-size")));
    if (service_->take_copy_request()) log_->request_copy();
    log_->work(now);
    log_->submit(now);
    // A descriptor that was closed leaves the epoll by itself.
    const int copier = log_->descriptors().second;
    if (copier >= 0 && std::exchange(watched_copier_, copier) != copier)
      static_cast<void>(watch(epoll_, copier, kLogKey));
    watched_copier_ = copier;
    service_->set_log_info({.is_there = true,
                            .is_copying = log_->is_copying(),
                            .bytes = log_->bytes(),
                            .failure = log_->failure() == nullptr ? "" : *log_->failure()});
    for (const std::string& complaint : log_->take_complaints()) complain(complaint);
  }

  std::optional<Milliseconds> next_deadline() const { return log_ ? log_->next_deadline() : std::nullopt; }

 private:
  std::unique_ptr<LoggedService> logged_;
  std::unique_ptr<StateLog> log_;
  Service* service_ = nullptr;
  int epoll_ = -1, watched_copier_ = -1;
};

Result<void> listen_tls(const ServeOptions& options, ClientSockets& sockets, Service& service) {
  auto context = TlsContext::open(options.tls);
  if (!context) return std::unexpected(context.error());
  Address address = sockets.address();
  address.port = *options.tls_port;
  if (auto listens = sockets.listen_tls(address, std::move(*context), options.tls_only); !listens)
    return listens;
  service.settings().fix("tls-port", std::to_string(sockets.tls_address().port));
  return {};
}

}  // namespace

Result<void> serve(const ServeOptions& options, StopSignals& signals) {
  raise_descriptor_limit();
  std::uint64_t seed = 0;
  if (auto filled = control::fill_random(std::as_writable_bytes(std::span(&seed, 1))); !filled)
    return std::unexpected(filled.error());
  const bool has_log = !options.directory.empty();
  StoredAclFile acl_file(options.acl_file);
  AclFile* const has_acl_file = options.acl_file.empty() ? nullptr : &acl_file;
  auto users = first_users(options, has_acl_file);
  if (!users) return std::unexpected(users.error());
  Service service(
      {.is_alone = options.is_alone() && !has_log,
       .unavailable_after = options.unavailable_after,
       .least_replicas = options.is_alone() ? 1 : options.least_replicas,
       .seed = seed,
       .acl_file = has_acl_file,
       .fill_random = [](std::span<std::byte> out) { return control::fill_random(out).has_value(); }});
  service.set_first_users(std::move(*users));
  const Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return fail_errno("epoll_create1", errno);
  Disk disk;
  if (auto opened = disk.open(options, seed, service, epoll.get()); !opened) return opened;
  auto sockets = ClientSockets::listen(options.listen, epoll.get(), service);
  if (!sockets) return std::unexpected(sockets.error());
  service.settings().fix("port", std::to_string(sockets->address().port));
  if (options.tls_port)
    if (auto listens = listen_tls(options, *sockets, service); !listens) return listens;
  if (!options.is_alone()) service.settings().fix(kMembersParameter, describe_service(options));
  service.set_info({.port = sockets->address().port, .pid = static_cast<std::uint64_t>(::getpid())});
  if (auto watched = watch(epoll.get(), signals.descriptor(), kSignalKey); !watched) return watched;
  if (has_log) {
    service.settings().fix("dir", options.directory);
    service.settings().fix("appendonly", "yes");
    service.settings().fix("appendfsync", to_string(options.syncs));
  }
  Replica replica(options, service, disk.log());
  std::optional<LocalOrder> local;
  if (options.is_alone() && has_log)
    local.emplace(service, *disk.log(), options.syncs == Syncs::always).start(seed | 1, seed, wall_clock());
  if (!options.is_alone()) {
    if (auto started = replica.start(wall_clock()); !started) return started;
    if (auto watched = watch(epoll.get(), replica.descriptor(), kReplicaKey); !watched) return watched;
  }
  if (options.json) print_json({{"event", "listening"}, {"address", to_string(sockets->address())}});
  if (options.tls_port) {
    if (options.json)
      print_json({{"event", "listening"}, {"address", to_string(sockets->tls_address())}, {"tls", true}});
    complain("clients with TLS connect to " + to_string(sockets->tls_address()));
  }
  complain("clients connect to " + to_string(sockets->address()));
  ::sd_notify(0, "READY=1");

  std::array<epoll_event, kMostEvents> events;
  for (;;) {
    const Milliseconds longest = options.is_alone() ? kLongestWaitAlone : kLongestWait;
    Milliseconds wait = longest;
    for (const auto& deadline : {service.next_deadline(), sockets->next_deadline(), disk.next_deadline()})
      if (deadline) wait = std::min(wait, std::clamp<Milliseconds>(*deadline - wall_clock(), 0, longest));
    const int count = ::epoll_wait(epoll.get(), events.data(), events.size(), static_cast<int>(wait));
    const Milliseconds now = wall_clock();
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if (event.data.u64 == kSignalKey && signals.take()) {
        if (has_log) disk.log()->flush();
        return {};
      }
      sockets->on_event(event.data.u64, event.events, now);
    }
    if (!options.is_alone()) {
      replica.work(now);
      for (const std::string& complaint : replica.take_complaints()) complain(complaint);
    }
    service.end_turn(now);
    if (local) local->work(now);
    disk.end_turn(now);
    if (local) local->work(now);
    replica.tell_persisted();
    for (const std::string& warning : service.take_warnings()) complain(warning);
    sockets->write_changed(now);
    sockets->end_late_handshakes(now);
  }
}

}  // namespace rdmc::kv

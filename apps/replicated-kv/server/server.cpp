#include "apps/replicated-kv/server/server.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fstream>

#include "apps/program/output.hpp"
#include "apps/replicated-kv/server/access_files.hpp"
#include "apps/replicated-kv/server/client_sockets.hpp"
#include "apps/replicated-kv/server/local_order.hpp"
#include "apps/replicated-kv/server/member_list.hpp"
#include "apps/replicated-kv/server/metrics.hpp"
#include "apps/replicated-kv/server/replica.hpp"
#include "controlplane/auth/random.hpp"
#include "controlplane/connect/identity.hpp"

namespace rdmc::kv {

namespace {

/// The keys of the events of epoll that do not belong to clients.
constexpr std::uint64_t kSignalKey = 0, kReplicaKey = 1, kLogKey = 2, kMetricsKey = 3;
/// The loop looks around at least this often, in milliseconds.
constexpr Milliseconds kLongestWait = 50, kLongestWaitAlone = 1000;
constexpr int kMostEvents = 256;
/// While the disk is read, clients get errors in this interval.
constexpr Milliseconds kAnswerEvery = 20;
/// A server that ends gives replies for this time, and leaves the service within that time.
constexpr Milliseconds kAnswerFor = 200, kLeaveWithin = 1000, kLookAtEnd = 5;
/// A server uses at most this number of descriptors for other things than clients.
constexpr std::uint64_t kMostClients = 10'000, kOtherDescriptors = 128;

Moment read_clocks() {
  const auto since = [](auto time) {
    return std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
  };
  return {since(std::chrono::system_clock::now()), since(std::chrono::steady_clock::now())};
}

std::uint64_t read_microseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::floor<std::chrono::microseconds>(now).count());
}

ProcessFacts read_process_facts() {
  ProcessFacts facts;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto microseconds = [](const timeval& time) {
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000 + static_cast<std::uint64_t>(time.tv_usec);
  };
  facts.user_microseconds = microseconds(usage.ru_utime);
  facts.system_microseconds = microseconds(usage.ru_stime);
  std::ifstream pages("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  if (pages >> all >> resident)
    facts.resident_bytes = resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return facts;
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

/// The steps of a server that ends: clients get the replies that are on their way. Then they lose their
/// connections, and the server leaves the service in order. If it is the main, another server becomes the
/// main at once, because it need not wait until this server is thought to be dead.
class Ending {
 public:
  explicit Ending(bool is_alone) : is_alone_(is_alone) {}
  bool has_begun() const { return stage_ != Stage::serves; }
  void begin(Service& service, ClientSockets& sockets, const Moment& now) {
    ::sd_notify(0, "STOPPING=1");
    log(LogLevel::info, "a signal stops this server");
    stage_ = Stage::answers;
    since_ = now.steady;
    service.begin_to_end();
    sockets.stop_listening();
  }
  bool is_over(const Service& service, ClientSockets& sockets, Replica& replica, const Moment& now) {
    if (stage_ == Stage::answers) {
      if (!service.has_answered_all() && now.steady - since_ < kAnswerFor) return false;
      stage_ = Stage::leaves;
      since_ = now.steady;
      sockets.close_all();
      if (!is_alone_) replica.begin_to_leave();
    }
    return is_alone_ || replica.has_left() || now.steady - since_ >= kLeaveWithin;
  }

 private:
  enum class Stage : std::uint8_t { serves, answers, leaves };
  const bool is_alone_;
  Stage stage_ = Stage::serves;
  Milliseconds since_ = 0;  // of the stage, on the steady clock
};

Result<void> watch(int epoll, int fd, std::uint64_t key) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = key}};
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) return fail_errno("epoll", errno);
  return {};
}

/// Handles what clients have sent by now, and nothing else. It does not wait.
void answer_clients(ClientSockets& sockets, int epoll, const Moment& now) {
  std::array<epoll_event, kMostEvents> events;
  const int count = ::epoll_wait(epoll, events.data(), events.size(), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    sockets.on_event(event.data.u64, event.events, now);
  }
  sockets.write_changed(now);
}

/// The files of the command line, which may be in the directory of the log. Some are empty.
std::vector<std::string> files_of(const ServeOptions& options) {
  const control::CertificateFiles& certificates = options.identity.certificates;
  return {options.acl_file,         options.requirepass_file, options.tls.certificate,
          options.tls.private_key,  options.tls.authority,    options.identity.key_file,
          certificates.certificate, certificates.private_key, certificates.authority};
}

/// The log of a server, if it has one, in the server's loop.
class Disk {
 public:
  /// Reads what the disk has into the service. Errors: those of StateLog::open(); cancelled if a signal
  /// arrives meanwhile.
  Result<void> open(const ServeOptions& options, std::uint64_t seed, Service& service, ClientSockets& sockets,
                    int epoll, StopSignals& signals) {
    if (options.directory.empty()) return {};
    const std::uint64_t begun = read_microseconds();
    logged_ = std::make_unique<LoggedService>(service, [&, epoll, last = Milliseconds{0}] mutable {
      const Moment now = read_clocks();
      if (now.steady - last < kAnswerEvery) return true;
      last = now.steady;
      answer_clients(sockets, epoll, now);
      // Later, when the data is read again to join again, the loop takes the signal.
      return !is_opening_ || !signals.take();
    });
    is_opening_ = true;
    service.begin_reading_disk();
    auto log = StateLog::open({.directory = options.directory,
                               .syncs = options.syncs,
                               .seed = seed,
                               .other_files = files_of(options)},
                              *logged_);
    service.end_reading_disk(read_clocks());
    is_opening_ = false;
    if (!log) return std::unexpected(log.error());
    log_ = std::move(*log);
    rdmc::log(LogLevel::info, fmt::format("read {} keys, {} bytes, from {} in {:.1f} s",
                                          service.databases().keys(), log_->all_bytes(), options.directory,
                                          static_cast<double>(read_microseconds() - begun) / 1e6));
    epoll_ = epoll;
    service_ = &service;
    return watch(epoll_, log_->descriptors().first, kLogKey);
  }

  StateLog* log() { return log_.get(); }

  /// True while the server must go on, because the disk does not have its state before a copy is complete.
  bool needs_copy() const { return log_ && log_->needs_copy(); }

  /// Waits until the disk has everything. For the end of the server. Errors: the reason why it has not.
  Result<void> end() { return log_ ? log_->end() : Result<void>(); }

  /// Must be called at the end of each turn. `now` is on the steady clock.
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
    const CopyFacts copies = log_->copy_facts();
    service_->set_log_info({.is_there = true,
                            .copy_began_at = copies.began_at,
                            .copy_took = copies.took,
                            .has_copy_failed = copies.has_failed,
                            .copied_at = copies.written_at,
                            .bytes = log_->bytes(),
                            .hangs = log_->hangs(),
                            .failure = log_->failure() == nullptr ? "" : *log_->failure()});
    for (const std::string& complaint : log_->take_complaints()) rdmc::log(LogLevel::warning, complaint);
  }

  std::optional<Milliseconds> next_deadline() const { return log_ ? log_->next_deadline() : std::nullopt; }

 private:
  std::unique_ptr<LoggedService> logged_;
  std::unique_ptr<StateLog> log_;
  Service* service_ = nullptr;
  int epoll_ = -1, watched_copier_ = -1;
  bool is_opening_ = false;
};

void say_addresses(const ServeOptions& options, const ClientSockets& sockets, const Metrics* metrics) {
  Json listening{{"event", "listening"}, {"address", to_string(sockets.address())}};
  if (metrics != nullptr) listening["metrics"] = to_string(metrics->address());
  if (options.json) print_json(listening);
  if (options.tls_port) {
    if (options.json)
      print_json({{"event", "listening"}, {"address", to_string(sockets.tls_address())}, {"tls", true}});
    log(LogLevel::info, "clients with TLS connect to " + to_string(sockets.tls_address()));
  }
  log(LogLevel::info, "clients connect to " + to_string(sockets.address()));
  if (metrics != nullptr)
    log(LogLevel::info, "metrics are at http://" + to_string(metrics->address()) + "/metrics");
}

/// The directory has a damaged file.
std::unexpected<Error> advise_on_damage(const Error& error, const ServeOptions& options) {
  return fail(
      error.code,
      error.what +
          (options.is_alone()
               ? ". Move the files log-*, copy-* and new-copy-* away, and put a backup of a copy there"
               : ". If other servers have the data, move the files log-*, copy-* and new-copy-* and the "
                 "folder views away, and start this server again: it gets the data from them"));
}

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
  if (!options.is_alone())
    if (const auto usable = control::security_of(options.identity); !usable)
      return std::unexpected(usable.error());
  const std::uint64_t most_clients = raise_descriptor_limit();
  std::uint64_t seed = 0;
  if (auto filled = control::fill_random(std::as_writable_bytes(std::span(&seed, 1))); !filled)
    return std::unexpected(filled.error());
  const bool has_log = !options.directory.empty();
  StoredAclFile acl_file(options.acl_file);
  AclFile* const has_acl_file = options.acl_file.empty() ? nullptr : &acl_file;
  auto users = first_users(options, has_acl_file, {});
  if (!users) return std::unexpected(users.error());
  Service service(
      {.is_alone = options.is_alone() && !has_log,
       .unavailable_after = options.unavailable_after,
       .least_replicas = options.is_alone() ? 1 : options.least_replicas,
       .servers = std::max<std::size_t>(options.members.size(), 1),
       .seed = seed,
       .started_at = read_clocks().steady,
       .started_wall = read_clocks().wall,
       .microseconds = read_microseconds,
       .process = read_process_facts,
       .acl_file = has_acl_file,
       .fill_random = [](std::span<std::byte> out) { return control::fill_random(out).has_value(); }});
  service.set_first_users(std::move(*users));
  if (options.names_memory_limit) service.set_memory_limit(options.maxmemory, options.maxmemory_policy);
  const Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return fail_errno("epoll_create1", errno);
  auto sockets = ClientSockets::listen(options.listen, epoll.get(), service);
  if (!sockets) return std::unexpected(sockets.error());
  service.settings().fix("maxclients", std::to_string(most_clients));
  service.settings().fix("port", std::to_string(sockets->address().port));
  if (options.tls_port)
    if (auto listens = listen_tls(options, *sockets, service); !listens) return listens;
  if (!options.is_alone()) service.settings().fix(kMembersParameter, describe_service(options));
  // Clients that connect while the disk is read get the error LOADING.
  Disk disk;
  if (auto opened = disk.open(options, seed, service, *sockets, epoll.get(), signals); !opened) {
    if (opened.error().code == Errc::corrupt) return advise_on_damage(opened.error(), options);
    if (opened.error().code != Errc::cancelled) return opened;
    log(LogLevel::info, "stopped by a signal before the data was read from the disk");
    return {};
  }
  const auto replacing = first_users(options, has_acl_file, service.users());
  if (!replacing) return std::unexpected(replacing.error());
  service.replace_users(*replacing);
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
    local.emplace(service, *disk.log(), options.syncs == Syncs::always).start(seed | 1, seed, read_clocks());
  if (!options.is_alone()) {
    if (auto started = replica.start(); !started) return started;
    if (auto watched = watch(epoll.get(), replica.descriptor(), kReplicaKey); !watched) return watched;
  }
  const auto metrics = Metrics::open(options.metrics, to_string(sockets->address()));
  if (!metrics) return std::unexpected(metrics.error());
  if (*metrics)
    if (auto watched = watch(epoll.get(), (*metrics)->descriptor(), kMetricsKey); !watched) return watched;
  say_addresses(options, *sockets, metrics->get());
  ::sd_notify(0, "READY=1");

  std::array<epoll_event, kMostEvents> events;
  Ending ending(options.is_alone());
  for (;;) {
    const Milliseconds longest = ending.has_begun()   ? kLookAtEnd
                                 : options.is_alone() ? kLongestWaitAlone
                                                      : kLongestWait;
    Milliseconds wait = longest;
    for (const auto& deadline : {service.next_deadline(), sockets->next_deadline(), disk.next_deadline()})
      if (deadline)
        wait = std::min(wait, std::clamp<Milliseconds>(*deadline - read_clocks().steady, 0, longest));
    const int count = ::epoll_wait(epoll.get(), events.data(), events.size(), static_cast<int>(wait));
    const Moment now = read_clocks();
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if (event.data.u64 == kSignalKey && signals.take()) {
        // The second signal ends the server at once.
        if (ending.has_begun()) {
          log(LogLevel::warning, "stopped at once by a second signal");
          return {};
        }
        ending.begin(service, *sockets, now);
      }
      if (event.data.u64 == kMetricsKey) (*metrics)->answer(service.figures());
      sockets->on_event(event.data.u64, event.events, now);
    }
    if (!options.is_alone())
      if (auto worked = replica.work(now); !worked) return worked;
    for (const std::string& complaint : sockets->take_complaints()) log(LogLevel::warning, complaint);
    for (const auto& [level, news] : replica.take_news()) log(level, news);
    service.end_turn(now);
    if (local) local->work(now);
    disk.end_turn(now.steady);
    if (local) local->work(now);
    replica.tell_persisted();
    for (const std::string& warning : service.take_warnings()) log(LogLevel::warning, warning);
    for (const std::string& news : service.take_news()) log(LogLevel::info, news);
    sockets->write_changed(now);
    sockets->end_late_handshakes(now);
    if (ending.has_begun() && ending.is_over(service, *sockets, replica, now) && !disk.needs_copy()) {
      const auto ended = disk.end();
      if (ended) log(LogLevel::info, "stopped");
      return ended;
    }
  }
}

}  // namespace rdmc::kv

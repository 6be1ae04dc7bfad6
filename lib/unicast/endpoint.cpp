#include <algorithm>
#include <cassert>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <utility>

#include "controlplane/peer/context.hpp"
#include "dataplane/base/clock.hpp"
#include "lib/identity_of.hpp"
#include "lib/unicast/introductions.hpp"

namespace rdmc {
namespace {

constexpr std::uint32_t kMostDepth = 65'536;
/// The upper limit of all waits. Longer ones would exceed the range of the clock.
constexpr Duration kForEver = seconds(3600 * 24 * 365);
/// connect() waits this much longer than the timeout, so that the cause of a failure can still arrive.
constexpr Duration kCausePatience = seconds(1);

Result<void> check(const EndpointOptions& options) {
  const auto wrong = [](const char* what) { return fail(Errc::invalid_argument, what); };
  if (options.name.empty() || options.name.size() > unicast::kMostNameBytes)
    return wrong("an endpoint's name has 1 to 255 bytes");
  if (options.private_data.size() > unicast::kMostPrivateBytes)
    return wrong("private data of more than 4096 bytes");
  if (options.send_depth == 0 || options.send_depth > kMostDepth || options.receive_depth == 0 ||
      options.receive_depth > kMostDepth)
    return wrong("depths lie between 1 and 65,536");
  if (options.receive_patience < Duration{}) return wrong("a receive_patience below 0");
  if (options.insecure && options.encrypt)
    return wrong("an insecure endpoint would show the keys that it encrypts with");
  return {};
}

/// The state that a waiting connect() shares with its upcall. The upcall may come after connect() has
/// returned.
struct Awaited {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Result<Connection>> made;
  bool is_given_up = false;

  void tell(Result<Connection> result) {
    const std::lock_guard lock(mutex);
    if (is_given_up && result) result->disconnect();
    made = std::move(result);
    changed.notify_all();
  }
};

}  // namespace

struct Endpoint::State {
  ~State() {
    // This destructor waits for turns, which an upcall blocks. It also waits for the control loop, which may
    // wait for that upcall.
    assert(!data_path || !data_path->thread().is_in_turn());
    if (introductions) introductions->close();
    if (!data_path) return;
    data_path->end_links();
    // An upcall may have called connect() until now. That call of connect() gets an error.
    introductions->stop();
    data_path->finish_tasks();
    introductions->stop();
    data_path->leave();
  }

  void start(std::shared_ptr<peer::FabricThread> thread);
  Result<void> may_wait() const;
  void on_ended(const std::shared_ptr<unicast::Link>& link, const Error& cause);

  EndpointOptions options;
  EndpointCallbacks on;
  Address address;
  Capabilities capabilities;
  const std::shared_ptr<unicast::Counters> counters = std::make_shared<unicast::Counters>();
  std::shared_ptr<peer::Context> context;
  std::shared_ptr<peer::Peers> peers;
  std::shared_ptr<unicast::DataPath> data_path;
  std::shared_ptr<unicast::Introductions> introductions;
};

void Endpoint::State::start(std::shared_ptr<peer::FabricThread> thread) {
  auto path = std::make_shared<unicast::DataPath>(
      std::move(thread),
      unicast::DataPath::Handlers{.completed = on.completed,
                                  .ended = [this](const std::shared_ptr<unicast::Link>& link,
                                                  const Error& cause) { on_ended(link, cause); }},
      counters);
  capabilities = path->capabilities();
  introductions = std::make_shared<unicast::Introductions>(
      *path, *peers,
      unicast::IntroductionOptions{.name = options.name,
                                   .private_data = options.private_data,
                                   .most_connections = options.most_connections,
                                   .link = {.send_depth = options.send_depth,
                                            .receive_depth = options.receive_depth,
                                            .receive_patience = std::min(options.receive_patience, kForEver),
                                            .capabilities = capabilities},
                                   .accept = on.accept,
                                   .connected = on.connected},
      *counters);
  data_path = std::move(path);
  data_path->start();
  address = options.address;
}

/// Returns an error if the calling thread must not wait for the control loop. The control loop sometimes
/// waits for the fabric thread. So an upcall on the fabric thread must not wait for the control loop.
Result<void> Endpoint::State::may_wait() const {
  if (data_path->thread().is_in_turn())
    return fail(Errc::invalid_argument, "an upcall cannot wait for the control loop");
  return {};
}

/// Called on the fabric thread when a link has ended.
void Endpoint::State::on_ended(const std::shared_ptr<unicast::Link>& link, const Error& cause) {
  introductions->forget(link->id(), cause);
  try {
    if (link->was_opened()) {
      ++counters->disconnected;
      if (on.disconnected) on.disconnected(Connection(link), cause);
    } else if (const auto done = link->take_done()) {
      done(std::unexpected(cause));
    }
  } catch (const std::bad_alloc&) {  // the upcall was called, and is not repeated
  }
}

Result<std::unique_ptr<Endpoint>> Endpoint::create(const EndpointOptions& options,
                                                   EndpointCallbacks callbacks) {
  if (auto checked = check(options); !checked) return std::unexpected(checked.error());
  auto state = std::make_unique<State>();
  state->options = options;
  state->on = std::move(callbacks);
  state->context = options.context ? options.context : peer::Context::of_process();
  auto peers = state->context->peers(identity_of(options));
  if (!peers) return std::unexpected(peers.error());
  state->peers = std::move(*peers);
  Address data_address = options.address;
  data_address.port = 0;
  peer::FabricThreadOptions wanted{.fabric = options.fabric,
                                   .address = data_address,
                                   .device = options.device,
                                   .encrypt = options.encrypt,
                                   .own_thread = options.own_thread};
  wanted.idle.busy_poll = options.busy_poll;
  auto thread = options.own_thread ? state->context->fabric_thread(wanted) : peer::FabricThread::open(wanted);
  if (!thread) return std::unexpected(thread.error());
  state->start(std::move(*thread));
  return std::unique_ptr<Endpoint>(new Endpoint(std::move(state)));
}

Endpoint::Endpoint(std::unique_ptr<State> state) : state_(std::move(state)) {}
Endpoint::~Endpoint() = default;

Result<void> Endpoint::listen() {
  if (auto may = state_->may_wait(); !may) return may;
  if (state_->introductions->listens()) return fail(Errc::invalid_argument, "the endpoint listens already");
  if (auto listening = state_->introductions->listen(state_->options.address); !listening) return listening;
  state_->address = state_->introductions->address();
  return {};
}

const Address& Endpoint::address() const {
  return state_->address;
}

const std::string& Endpoint::fabric_name() const {
  return state_->data_path->thread().fabric_name();
}

const Capabilities& Endpoint::capabilities() const {
  return state_->capabilities;
}

void Endpoint::connect(Target to, Duration timeout, ConnectDone done) {
  state_->introductions->connect(std::move(to), std::clamp(timeout, Duration{}, kForEver), std::move(done));
}

Result<Connection> Endpoint::connect(Target to, Duration timeout) try {
  peer::FabricThread& thread = state_->data_path->thread();
  if (auto may = state_->may_wait(); !may) return std::unexpected(may.error());
  if (state_->peers->loop().on_loop_thread())
    return fail(Errc::invalid_argument, "an upcall of a membership cannot wait for a connection");
  if (!state_->options.own_thread && !thread.is_current())
    return fail(Errc::invalid_argument, "only the thread that drives the endpoint can wait for a connection");
  const auto awaited = std::make_shared<Awaited>();
  const Time end = monotonic_now() + std::clamp(timeout, Duration{}, kForEver) + kCausePatience;
  connect(std::move(to), timeout, [awaited](Result<Connection> made) { awaited->tell(std::move(made)); });
  std::unique_lock lock(awaited->mutex);
  while (!awaited->made && monotonic_now() < end) {
    if (state_->options.own_thread) {
      awaited->changed.wait_for(lock, std::chrono::nanoseconds((end - monotonic_now()).ns));
    } else {
      lock.unlock();
      thread.turn(milliseconds(10));
      lock.lock();
    }
  }
  if (awaited->made) return std::move(*awaited->made);
  awaited->is_given_up = true;
  return fail(Errc::timed_out, "the connection was not made in time");
} catch (const std::bad_alloc&) {
  return fail(Errc::resource_limit, "no memory");
}

Result<Region> Endpoint::register_memory(std::span<std::byte> memory, RemoteAccess access) {
  constexpr RemoteAccess kAll = RemoteAccess::write | RemoteAccess::read | RemoteAccess::atomic;
  if (access == RemoteAccess::none || !permits(kAll, access))
    return fail(Errc::invalid_argument, "a region permits write, read, atomic, or several of these");
  if (permits(access, RemoteAccess::atomic) && reinterpret_cast<std::uintptr_t>(memory.data()) % 8 != 0)
    return fail(Errc::invalid_argument, "memory for atomic operations begins at a multiple of 8");
  if (permits(access, RemoteAccess::atomic) && !state_->capabilities.atomics)
    return fail(Errc::unsupported, "this fabric has no atomic operations");
  auto region = std::make_shared<unicast::RegionState>(
      unicast::RegionState{.memory = memory, .access = access, .data_path = state_->data_path});
  if (auto added = state_->data_path->add(region); !added) return std::unexpected(added.error());
  return Region(std::move(region));
}

std::size_t Endpoint::poll(std::span<Completion> out, Duration longest) {
  unicast::DataPath& path = *state_->data_path;
  longest = std::min(longest, kForEver);
  const bool is_current = path.thread().is_current();
  if (state_->options.own_thread) return path.take(out, is_current ? Duration{} : longest);
  if (!is_current || path.thread().is_in_turn()) return 0;
  // The thread takes a turn even if completions are waiting already. The application may watch the descriptor
  // with edge-triggered epoll. Without a turn, it would get no further event.
  path.thread().turn(out.empty() ? longest : Duration{});
  std::size_t count = path.take(out, {});
  const Time end = monotonic_now() + longest;
  while (count == 0 && !out.empty()) {
    const Duration left = end - monotonic_now();
    if (left <= Duration{}) break;
    path.thread().turn(left);
    count = path.take(out, {});
  }
  return count;
}

Result<int> Endpoint::descriptor() {
  return state_->data_path->thread().descriptor();
}

EndpointCounters Endpoint::counters() const {
  return state_->counters->values();
}

}  // namespace rdmc

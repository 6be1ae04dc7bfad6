#include "dataplane/fabric/shm/shm_fabric.hpp"

#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "dataplane/base/clock.hpp"
#include "dataplane/fabric/shm/shm_queue_pair.hpp"
#include "dataplane/memory/arena.hpp"

namespace rdmc::fabric {
namespace {

constexpr std::uint64_t kListenerTag = 0;
/// The maximum number of connections whose hello has not arrived. Further connections are closed.
constexpr std::size_t kMostPendingConnections = 256;
/// The maximum number of connections accepted in one turn. The limit keeps other work from being delayed.
constexpr std::size_t kConnectionsPerTurn = 64;
/// The time that a connection may wait for its hello. A peer sends its hello right after it connects.
constexpr Duration kPendingPatience = seconds(1);
constexpr std::uint32_t kMostDepth = 1 << 20;

}  // namespace

class ShmFabric::Region final : public MemoryRegion {
 public:
  Region(ShmFabric& fabric, RemoteKey key, std::uint64_t address)
      : fabric_(fabric), key_(key), address_(address) {}
  ~Region() override { fabric_.regions_.revoke(key_); }
  RemoteKey remote_key() const noexcept override { return key_; }
  std::uint64_t remote_address() const noexcept override { return address_; }

 private:
  ShmFabric& fabric_;
  RemoteKey key_;
  std::uint64_t address_;
};

Result<std::unique_ptr<ShmFabric>> ShmFabric::open(ShmFabricOptions options) {
  if (options.host_id == 0)
    return fail(Errc::unsupported, "the system does not tell which host and network namespace this is");
  auto doorbell = shm::Doorbell::make();
  if (!doorbell) return std::unexpected(doorbell.error());
  const shm::Token name = shm::fresh_token(options.entropy);
  auto listener = shm::LocalListener::open(name);
  if (!listener) return std::unexpected(listener.error());
  std::unique_ptr<ShmFabric> self(
      new ShmFabric(std::move(options), std::move(*doorbell), name, std::move(*listener)));
  auto watch = shm::SocketWatch::open([fabric = self.get()] {
    fabric->attention_ = true;
    fabric->wake();
    // The other fabric is always woken, because the doorbell's word does not reliably show whether the engine
    // sleeps in that fabric. A peer may have reset the word.
    if (fabric->options_.wake_elsewhere) fabric->options_.wake_elsewhere();
  });
  if (!watch) return std::unexpected(watch.error());
  self->watch_ = std::move(*watch);
  if (auto watched = self->watch_->watch(self->listener_.descriptor(), kListenerTag); !watched)
    return std::unexpected(watched.error());
  return self;
}

ShmFabric::~ShmFabric() {
  watch_.reset();  // The thread of the watch calls this object.
}

FabricInfo ShmFabric::info() const {
  return {.name = "shm", .icrc = false, .pins_memory = true};
}

Result<std::unique_ptr<QueuePair>> ShmFabric::create_queue_pair(const QueuePairOptions& options) {
  for (const std::uint32_t depth : {options.send_depth, options.receive_depth})
    if (depth == 0 || depth > kMostDepth)
      return fail(Errc::invalid_argument, "a queue depth of 0, or above 2^20");
  auto memory = memory::SharedPages::make(sizeof(shm::QueueMemory), memory::SharedPages::Peers::may_read,
                                          memory::Touch::when_used);
  if (!memory) return std::unexpected(memory.error());
  const shm::ShmBlob local{.listener = name_,
                           .queue_pair = shm::fresh_token(options_.entropy),
                           .host_id = options_.host_id,
                           .user = geteuid()};
  auto queue_pair = std::make_unique<ShmQueuePair>(*this, options, local, next_serial_++, std::move(*memory));
  queue_pairs_.push_back(queue_pair.get());
  return queue_pair;
}

void ShmFabric::forget(ShmQueuePair& queue_pair) {
  std::erase(queue_pairs_, &queue_pair);
  counters_.bytes_copied += queue_pair.requester_.bytes_copied() + queue_pair.responder_.bytes_copied();
}

Result<std::unique_ptr<MemoryRegion>> ShmFabric::register_memory(std::span<std::byte> memory, MemoryUse,
                                                                 RemoteAccess access) {
  return register_for(KeyHolder::anyone, memory, access);
}

Result<std::unique_ptr<MemoryRegion>> ShmFabric::register_for(KeyHolder holder, std::span<std::byte> memory,
                                                              RemoteAccess access) {
  while (true) {
    auto region = add_region(RemoteKey{options_.entropy()}, 0, memory, access, holder);
    if (region || region.error().code != Errc::already_exists) return region;
  }
}

Result<std::unique_ptr<MemoryRegion>> ShmFabric::register_as(RemoteKey key, std::uint64_t remote_address,
                                                             std::span<std::byte> memory,
                                                             RemoteAccess access) {
  return add_region(key, remote_address, memory, access, KeyHolder::anyone);
}

Result<std::unique_ptr<MemoryRegion>> ShmFabric::add_region(RemoteKey key, std::uint64_t remote_address,
                                                            std::span<std::byte> memory, RemoteAccess access,
                                                            KeyHolder holder) {
  if (!regions_.add(key, remote_address, memory, access, holder))
    return fail(Errc::already_exists, "that key names another region");
  return std::make_unique<Region>(*this, key, remote_address);
}

Result<memory::Arena> ShmFabric::make_arena(std::size_t bytes, memory::Touch touch) {
  auto arena = memory::Arena::make_shared(bytes, touch);
  if (arena && bytes != 0) arenas_.add(arena->shared_pages());
  return arena;
}

std::size_t ShmFabric::progress(Time now) {
  ring_all();  // Wakes peers for what was posted since the last turn, before anything is copied.
  std::size_t done = attention_.exchange(false) ? serve_sockets(now) : 0;
  drop_silent_connections(now);
  for (ShmQueuePair* const queue_pair : queue_pairs_) done += queue_pair->turn(now);
  ring_all();
  if (done != 0) idle_turns_ = 0;
  return done;
}

void ShmFabric::ring_all() {
  for (ShmQueuePair* const queue_pair : queue_pairs_) queue_pair->ring();
}

Time ShmFabric::next_deadline() const {
  Time earliest = pending_connections_.empty() ? Time::never()
                                               : pending_connections_.begin()->second.came + kPendingPatience;
  for (const ShmQueuePair* const queue_pair : queue_pairs_)
    earliest = std::min(earliest, queue_pair->next_deadline());
  return earliest;
}

void ShmFabric::pause() {
  if (!core_offer_.is_due(++idle_turns_)) return;
  const Time offered = monotonic_now();
  sched_yield();
  core_offer_.offered(monotonic_now() - offered);
}

bool ShmFabric::has_news() const {
  return woken_ || attention_ ||
         std::ranges::any_of(queue_pairs_, [](const ShmQueuePair* one) { return one->has_news(); });
}

bool ShmFabric::begin_sleep(shm::Sleep how) {
  ring_all();  // Wakes peers for what was posted since the last turn.
  for (ShmQueuePair* const queue_pair : queue_pairs_) queue_pair->requester_.ask_to_be_woken();
  sleeping_ = how;
  doorbell_.announce(how);
  return !has_news();
}

void ShmFabric::wait(Time deadline) {
  if (begin_sleep(shm::Sleep::on_futex)) {
    if (const Time now = monotonic_now(); deadline > now) {
      ++counters_.sleeps;
      doorbell_.sleep(deadline, now);
    }
  }
  end_sleep();
}

void ShmFabric::wake() noexcept {
  woken_ = true;
  // The shared word is not used here, because a peer may have reset it and not woken this process yet.
  const shm::Sleep sleeping = sleeping_;
  if (sleeping == shm::Sleep::on_futex) doorbell_.wake();
  if (const int watched = watched_wake_; watched >= 0 && sleeping == shm::Sleep::elsewhere) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = write(watched, &one, sizeof one);
  }
}

/// Returns an eventfd, which is never read. Each write to the eventfd is a new event for a caller that
/// watches it edge-triggered.
Result<std::vector<int>> ShmFabric::wait_descriptors() {
  if (!own_wake_) {
    own_wake_ = Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!own_wake_) return fail_errno("eventfd", errno);
    watched_wake_ = own_wake_.get();
  }
  return std::vector{own_wake_.get()};
}

Time ShmFabric::prepare_wait(Time deadline) {
  if (!begin_sleep(shm::Sleep::elsewhere)) return Time{};
  ++counters_.sleeps;
  return std::min(deadline, monotonic_now() + shm::Doorbell::kLongestSleep);
}

std::size_t ShmFabric::serve_sockets(Time now) {
  const auto tags = watch_->take();
  for (const std::uint64_t tag : tags) {
    if (tag == kListenerTag) {
      accept_connections(now);
    } else if (pending_connections_.contains(tag)) {
      on_pending_connection(tag);
    } else {
      const auto found = std::ranges::find(queue_pairs_, tag, [](const auto* one) { return one->serial_; });
      if (found != queue_pairs_.end()) (*found)->on_socket();
    }
  }
  return tags.size();
}

void ShmFabric::accept_connections(Time now) {
  // The listener is watched again before the loop, because a lack of memory may end the loop early.
  // Connections that arrive during the loop cause another event.
  (void)watch_->watch(listener_.descriptor(), kListenerTag);
  for (std::size_t taken = 0; taken < kConnectionsPerTurn; ++taken) {
    auto socket = listener_.accept();
    if (!socket) break;
    if (pending_connections_.size() == kMostPendingConnections) continue;
    const std::uint64_t tag = next_serial_++;
    pending_connections_.emplace(tag, PendingConnection{std::move(*socket), now});
    on_pending_connection(tag);  // In most cases, the hello of the connection has arrived already.
  }
}

void ShmFabric::drop_silent_connections(Time now) {
  while (!pending_connections_.empty() && now - pending_connections_.begin()->second.came >= kPendingPatience)
    pending_connections_.erase(pending_connections_.begin());
}

void ShmFabric::on_pending_connection(std::uint64_t tag) {
  const auto pending = pending_connections_.find(tag);
  auto received = pending->second.socket.receive();
  if (received && !*received) {
    (void)watch_->watch(pending->second.socket.descriptor(), tag);
    return;
  }
  shm::LocalSocket socket = std::move(pending->second.socket);
  pending_connections_.erase(pending);
  if (!received) return;
  const shm::Token& wanted = (*received)->message.to;
  const auto found = std::ranges::find(
      queue_pairs_, wanted, [](const auto* one) -> const shm::Token& { return one->local_.queue_pair; });
  if (found != queue_pairs_.end()) (*found)->visit(std::move(socket), std::move(**received));
}

ShmFabricCounters ShmFabric::counters() const {
  ShmFabricCounters sum = counters_;
  for (const ShmQueuePair* const one : queue_pairs_)
    sum.bytes_copied += one->requester_.bytes_copied() + one->responder_.bytes_copied();
  return sum;
}

}  // namespace rdmc::fabric

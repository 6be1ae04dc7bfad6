#include "controlplane/peer/context.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <utility>

#include "dataplane/base/signal_masked_thread.hpp"

namespace rdmc::peer {
namespace {

/// The length of the longest message of a service, such as a view of all members. A peer that sends a longer
/// message is disconnected, so it cannot fill this process's memory.
constexpr std::uint32_t kMostMessageBytes = 2 * 1024 * 1024;

/// Peers, together with the loop on which they run. The destructor ends the Peers first, and then the loop.
struct WithLoop {
  WithLoop(std::shared_ptr<control::ControlLoop> on, std::shared_ptr<Peers> made)
      : loop(std::move(on)), peers(std::move(made)) {}
  WithLoop(const WithLoop&) = delete;
  WithLoop& operator=(const WithLoop&) = delete;
  ~WithLoop() {
    peers.reset();
    if (!loop->on_loop_thread()) return;
    // A handler has released the last reference, so this code runs on the loop's own thread. A thread cannot
    // wait for its own end, so another thread waits for it.
    auto* const last = new std::shared_ptr(std::move(loop));
    auto thread = start_signal_masked_thread("to end the control loop", [last] { delete last; });
    if (thread) thread->detach();  // If no thread can be started, the loop continues to run without work.
  }

  std::shared_ptr<control::ControlLoop> loop;
  std::shared_ptr<Peers> peers;
};

/// True if both paths name the same file. Several paths may name one file, for example through a link.
bool is_same_file(const std::string& one, const std::string& other) {
  std::error_code unknown;  // A file that does not exist is different from every other file.
  return one == other || std::filesystem::equivalent(one, other, unknown);
}

bool is_same(const control::Identity& one, const control::Identity& other) {
  const auto& files = one.certificates;
  const auto& others = other.certificates;
  return one.insecure == other.insecure && is_same_file(one.key_file, other.key_file) &&
         is_same_file(files.authority, others.authority) &&
         is_same_file(files.certificate, others.certificate) &&
         is_same_file(files.private_key, others.private_key);
}

/// True if `thread` can be used for `wanted`. If the wanted port is 0, a thread with any port can be used.
bool serves(const FabricThreadOptions& thread, const FabricThreadOptions& wanted) {
  FabricThreadOptions same = wanted;
  if (wanted.address.port == 0) same.address.port = thread.address.port;
  return thread == same;
}

}  // namespace

/// The entries form a list: the Context of this process, and then the Contexts of the processes from which it
/// was forked, newest first. The Contexts are never destroyed, for two reasons: an application may release
/// its last fabric thread while the process exits, and a child must not use the objects of its parent. There
/// is no lock, because fork() could copy the lock while another thread holds it.
std::shared_ptr<Context> Context::of_process() {
  struct Entry {
    const pid_t process = ::getpid();
    const std::shared_ptr<Context> context = std::make_shared<Context>();
    const Entry* before = nullptr;
  };
  static std::atomic<const Entry*> newest = nullptr;
  for (const Entry* entry = newest;;) {
    if (entry != nullptr && entry->process == ::getpid()) return entry->context;
    auto made = std::make_unique<Entry>(Entry{.before = entry});
    if (newest.compare_exchange_strong(entry, made.get())) return made.release()->context;
  }
}

Result<std::shared_ptr<FabricThread>> Context::fabric_thread(const FabricThreadOptions& options) {
  if (!options.own_thread)
    return fail(Errc::invalid_argument, "a fabric that the application's thread drives is not shared");
  const std::lock_guard lock(mutex_);
  std::erase_if(threads_, [](const auto& thread) { return thread.expired(); });
  std::shared_ptr<FabricThread> best;
  std::size_t alike = 0;
  for (const auto& weak : threads_) {
    auto thread = weak.lock();
    if (!thread || !serves(thread->options(), options)) continue;
    ++alike;
    if (!best || thread.use_count() < best.use_count()) best = std::move(thread);
  }
  // Only one thread can use a certain port. If a thread with this port exists, it must be used.
  const bool is_port_taken = options.address.port != 0;
  if (alike != 0 && (is_port_taken || alike >= options_.threads)) return best;
  auto opened = FabricThread::open(options);
  if (opened) threads_.push_back(*opened);
  return opened;
}

void Context::set_most_threads(std::size_t most) {
  const std::lock_guard lock(mutex_);
  options_.threads = most;
}

std::size_t Context::threads() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::ranges::count_if(threads_, [](const auto& thread) { return !thread.expired(); }));
}

bool Context::is_on_fabric_thread() const {
  // Declared first, so that the references are released after the mutex.
  std::vector<std::shared_ptr<FabricThread>> threads;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& thread : threads_) threads.push_back(thread.lock());
  }
  return std::ranges::any_of(threads, [](const auto& thread) { return thread && thread->is_current(); });
}

Result<std::shared_ptr<control::ControlLoop>> Context::loop() {
  const std::lock_guard lock(mutex_);
  if (auto loop = loop_.lock()) return loop;
  auto made = control::ControlLoop::create();
  if (!made) return std::unexpected(made.error());
  std::shared_ptr<control::ControlLoop> loop = std::move(*made);
  loop_ = loop;
  return loop;
}

std::shared_ptr<Peers> Context::known_peers(const control::Identity& identity) {
  std::erase_if(peers_, [](const KeptPeers& kept) { return kept.peers.expired(); });
  for (const KeptPeers& kept : peers_)
    if (auto peers = kept.peers.lock(); peers && is_same(kept.identity, identity)) return peers;
  return nullptr;
}

/// Makes the Peers without holding the mutex, because making them waits for the loop, and a task of the loop
/// may wait for the mutex.
Result<std::shared_ptr<Peers>> Context::peers(const control::Identity& identity) {
  {
    const std::lock_guard lock(mutex_);
    if (auto peers = known_peers(identity)) return peers;
  }
  const auto security = control::security_of(identity);
  if (!security) return std::unexpected(security.error());
  const auto with_loop = loop();
  if (!with_loop) return std::unexpected(with_loop.error());
  auto made = Peers::create(**with_loop, {.security = *security, .max_message_bytes = kMostMessageBytes});
  if (!made) return std::unexpected(made.error());
  const auto kept = std::make_shared<WithLoop>(*with_loop, std::move(*made));
  std::shared_ptr<Peers> shared(kept, kept->peers.get());
  const std::lock_guard lock(mutex_);
  // If another thread has made these Peers meanwhile, its Peers are used. The Peers that were made here end
  // after the mutex is released.
  if (auto peers = known_peers(identity)) return peers;
  peers_.push_back({identity, shared});
  return shared;
}

}  // namespace rdmc::peer

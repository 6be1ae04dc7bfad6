#include "controlplane/peer/context.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace rdmc::peer {

/// Contexts of this process and of those that it was forked from, the newest first. They are never destroyed:
/// an application may let go of its last thread while the process exits, and a child must not touch what its
/// parent had. There is no lock, which fork() could copy while another thread holds it.
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
    if (!thread || thread->options() != options) continue;
    ++alike;
    if (!best || thread.use_count() < best.use_count()) best = std::move(thread);
  }
  if (alike != 0 && alike >= options_.threads) return best;
  auto opened = FabricThread::open(options);
  if (opened) threads_.push_back(*opened);
  return opened;
}

std::size_t Context::threads() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::ranges::count_if(threads_, [](const auto& thread) { return !thread.expired(); }));
}

Result<std::shared_ptr<control::ControlLoop>> Context::loop_with_lock() {
  if (auto loop = loop_.lock()) return loop;
  auto made = control::ControlLoop::create();
  if (!made) return std::unexpected(made.error());
  std::shared_ptr<control::ControlLoop> loop = std::move(*made);
  loop_ = loop;
  return loop;
}

Result<std::shared_ptr<control::ControlLoop>> Context::loop() {
  const std::lock_guard lock(mutex_);
  return loop_with_lock();
}

Result<std::shared_ptr<Peers>> Context::peers(const control::Identity& identity) {
  const std::lock_guard lock(mutex_);
  std::erase_if(peers_, [](const KeptPeers& kept) { return kept.peers.expired(); });
  for (const KeptPeers& kept : peers_)
    if (auto peers = kept.peers.lock(); peers && kept.identity == identity) return peers;
  const auto security = control::security_of(identity);
  if (!security) return std::unexpected(security.error());
  const auto loop = loop_with_lock();
  if (!loop) return std::unexpected(loop.error());
  auto peers = Peers::create(**loop, {.security = *security});
  if (!peers) return std::unexpected(peers.error());
  // In this order: the peers end before the loop that they live on.
  struct WithLoop {
    std::shared_ptr<control::ControlLoop> loop;
    std::shared_ptr<Peers> peers;
  };
  const auto with_loop = std::make_shared<WithLoop>(WithLoop{*loop, std::move(*peers)});
  std::shared_ptr<Peers> shared(with_loop, with_loop->peers.get());
  peers_.push_back({identity, shared});
  return shared;
}

}  // namespace rdmc::peer

#include "controlplane/peer/fabric_thread.hpp"

#include <poll.h>
#include <pthread.h>

#include <cassert>
#include <utility>

#include "controlplane/auth/random.hpp"
#include "dataplane/base/signal_masked_thread.hpp"
#include "dataplane/fabric/host_identity.hpp"

namespace rdmc::peer {
Result<std::shared_ptr<FabricThread>> FabricThread::open(const FabricThreadOptions& options) {
  const auto random = control::SystemRandom::open();
  if (!random) return std::unexpected(random.error());
  auto opened = fabric::open_reachable_fabric(options.fabric,
                                              {.address = options.address,
                                               .device = options.device,
                                               .device_may_differ = true,
                                               .dscp = options.dscp,
                                               .changes_threads = options.changes_threads},
                                              {.entropy = [random = *random] { return random.next32(); },
                                               .host_id = fabric::host_identity(),
                                               .encrypt = options.encrypt});
  if (!opened) return std::unexpected(opened.error());
  std::shared_ptr<FabricThread> self(new FabricThread());
  self->options_ = options;
  self->opened_ = std::move(*opened);
  self->poller_ = std::make_unique<Poller>(*self);
  self->engine_ = std::make_unique<engine::Engine>(*self->poller_, options.idle);
  self->engine_->add(*self->poller_);
  if (!options.own_thread) return self;
  auto thread = start_signal_masked_thread("for the fabric", [raw = self.get()] {
    pthread_setname_np(pthread_self(), "rdmc-fabric");
    raw->owner_ = std::this_thread::get_id();
    raw->owner_.notify_all();
    raw->engine_->run();
  });
  if (!thread) return std::unexpected(thread.error());
  self->thread_ = std::move(*thread);
  self->owner_.wait(std::this_thread::get_id());
  return self;
}

FabricThread::~FabricThread() {
  if (!thread_.joinable()) return;
  assert(!is_current());
  engine_->stop();
  thread_.join();
}

Result<void> FabricThread::check_driver() const {
  if (options_.own_thread) return fail(Errc::invalid_argument, "it has a thread of its own");
  if (!is_current()) return fail(Errc::invalid_argument, "only the thread that opened it may drive it");
  return {};
}

Result<int> FabricThread::descriptor() {
  if (auto may = check_driver(); !may) return std::unexpected(may.error());
  if (!loop_) {
    const auto watched = poller_->wait_descriptors();
    if (!watched) return std::unexpected(watched.error());
    auto loop = engine::LoopDescriptor::make(*watched);
    if (!loop) return std::unexpected(loop.error());
    loop_.emplace(std::move(*loop));
    note_work();
  }
  return loop_->get();
}

Result<void> FabricThread::turn(Duration longest) {
  if (auto may = check_driver(); !may) return may;
  if (is_in_turn_) return fail(Errc::invalid_argument, "an upcall may not give turns");
  const InTurn inside(is_in_turn_);
  if (!loop_) {
    engine_->turn(longest);
    return {};
  }
  if (longest.ns > 0) {
    pollfd any{loop_->get(), POLLIN, 0};
    const timespec patience{.tv_sec = longest.ns / 1'000'000'000, .tv_nsec = longest.ns % 1'000'000'000};
    ppoll(&any, 1, &patience, nullptr);
  }
  loop_->take();
  loop_->readable_at(engine_->run_while_busy());
  return {};
}

void FabricThread::post_when_room(Task task) {
  assert(!is_current());
  // post() consumes its task even if the queue is full and the task is refused. Therefore the posted function
  // contains only a reference to the task.
  const auto kept = std::make_shared<Task>(std::move(task));
  while (!post([kept] { (*kept)(); })) std::this_thread::yield();
}

Result<memory::Arena> FabricThread::make_arena(std::size_t bytes, memory::Touch touch) {
  return call([&] { return fabric().make_arena(bytes, touch); });
}

}  // namespace rdmc::peer

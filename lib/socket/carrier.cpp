#include "lib/socket/carrier.hpp"

#include <algorithm>
#include <cerrno>
#include <future>
#include <new>
#include <system_error>
#include <utility>

#include "controlplane/auth/random.hpp"
#include "dataplane/base/quiet_thread.hpp"
#include "dataplane/fabric/host_identity.hpp"

namespace rdmc::sockets {

Result<std::unique_ptr<Carrier>> Carrier::open(const CarrierOptions& options, const Address& address,
                                               FairMutex& lock) {
  const auto random = control::SystemRandom::open();
  if (!random) return std::unexpected(random.error());
  Address any_port = address;
  any_port.port = 0;
  auto opened = fabric::open_reachable_fabric(
      options.fabric, {.address = any_port, .device = options.device, .device_may_differ = true},
      {.entropy = [random = *random] { return random.next32(); },
       .host_id = fabric::host_identity(),
       .encrypt = options.encrypt});
  if (!opened) return std::unexpected(opened.error());
  std::unique_ptr<Carrier> carrier(new Carrier(lock));
  carrier->opened_ = std::move(*opened);
  carrier->agent_ = std::make_unique<group::FabricAgent>(*carrier->opened_.fabric);
  carrier->engine_ =
      std::make_unique<engine::Engine>(*carrier->agent_, engine::IdleStrategy{.offers_core = true});
  carrier->engine_->add(*carrier->agent_);
  carrier->engine_->add(*carrier);
  auto thread = start_quiet_thread("for the sockets' engine", [raw = carrier.get()] { raw->run(); });
  if (!thread) return std::unexpected(thread.error());
  carrier->thread_ = std::move(*thread);
  return carrier;
}

Carrier::~Carrier() {
  stop();
}

void Carrier::stop() {
  if (!thread_.joinable()) return;
  engine_->stop();
  thread_.join();
}

/// The fabric and all on it end on the thread that they lived on.
void Carrier::run() {
  while (!run_while_memory_lasts()) {
  }
  for (const auto& trunk : trunks_) trunk->lose(ECONNRESET);
  trunks_.clear();
}

/// False: the process had no memory for something of the fabric's; all that is on it may lack a piece.
bool Carrier::run_while_memory_lasts() {
  try {
    engine_->run();
    return true;
  } catch (const std::bad_alloc&) {
    for (const auto& trunk : trunks_) trunk->lose(ENOBUFS);
    trunks_.clear();
    return false;
  }
}

void Carrier::post(engine::Engine::Task task) {
  auto shared = std::make_shared<engine::Engine::Task>(std::move(task));
  while (!engine_->post([shared] { (*shared)(); })) std::this_thread::yield();
}

void Carrier::kick() {
  // A queue that is full wakes the engine as well.
  if (!kicked_.exchange(true)) (void)engine_->post([] {});
}

Result<std::shared_ptr<Trunk>> Carrier::make_trunk(std::shared_ptr<Mux> mux) {
  auto trunk = Trunk::create(*opened_.fabric, lock_, std::move(mux));
  if (trunk) trunks_.push_back(*trunk);
  return trunk;
}

Result<memory::Arena> Carrier::make_arena(std::size_t bytes) {
  std::promise<Result<memory::Arena>> made;
  post([&] {
    try {
      made.set_value(opened_.fabric->make_arena(bytes));
    } catch (const std::bad_alloc&) {
      made.set_value(fail(Errc::resource_limit, "no memory for an arena"));
    }
  });
  return made.get_future().get();
}

std::size_t Carrier::work(Time) {
  const bool kicked = kicked_.exchange(false);
  std::size_t done = 0;
  for (const auto& trunk : trunks_) {
    try {
      done += trunk->work(kicked);
    } catch (const std::bad_alloc&) {  // for what this peer has sent; it goes, and with it what it took
      trunk->lose(ENOBUFS);
    }
  }
  std::erase_if(trunks_, [](const auto& trunk) { return trunk->is_lost(); });
  return done;
}

bool Carrier::is_quiet() const {
  return std::ranges::all_of(trunks_, [](const auto& trunk) { return trunk->is_quiet(); });
}

}  // namespace rdmc::sockets

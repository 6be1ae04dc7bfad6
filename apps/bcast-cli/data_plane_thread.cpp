#include "apps/bcast-cli/data_plane_thread.hpp"

#include <fmt/format.h>

#include <cassert>
#include <future>
#include <system_error>
#include <utility>

#include "controlplane/auth/random.hpp"
#include "dataplane/fabric/host_identity.hpp"

namespace rdmc::bcast {

Result<std::unique_ptr<DataPlaneThread>> DataPlaneThread::open(control::ControlLoop& loop,
                                                               const FabricChoice& fabric, Address address,
                                                               std::size_t ring_bytes,
                                                               DataPlane::Events events) {
  std::unique_ptr<DataPlaneThread> self(new DataPlaneThread(loop));
  const auto random = control::SystemRandom::open();
  if (!random) return std::unexpected(random.error());
  address.port = 0;
  auto opened = fabric::open_reachable_fabric(
      fabric.name,
      {.address = address, .device = fabric.device, .device_may_differ = true, .dscp = fabric.dscp},
      {.entropy = [random = *random] { return random.next32(); },
       .host_id = fabric::host_identity(),
       .encrypt = fabric.encrypt});
  if (!opened) return std::unexpected(opened.error());
  self->opened_ = std::move(*opened);
  auto ring = self->opened_.fabric->make_arena(ring_bytes);
  if (!ring) return std::unexpected(ring.error());
  self->ring_ = std::move(*ring);
  self->agent_ = std::make_unique<group::FabricAgent>(*self->opened_.fabric);
  self->engine_ = std::make_unique<engine::Engine>(*self->agent_, engine::IdleStrategy{});
  self->engine_->add(*self->agent_);
  // The data plane speaks on the engine's thread; what it says is carried over to the loop's.
  const auto shared = std::make_shared<DataPlane::Events>(std::move(events));
  self->plane_ = std::make_unique<DataPlane>(
      *self->opened_.fabric, *self->engine_,
      DataPlane::Events{
          .delivered = [&loop,
                        shared](Epoch epoch) { loop.post([shared, epoch] { shared->delivered(epoch); }); },
          .failed =
              [&loop, shared](Epoch epoch, std::optional<Rank> peer, const Error& error) {
                loop.post([shared, epoch, peer, error] { shared->failed(epoch, peer, error); });
              }});
  try {
    self->thread_ = std::thread([engine = self->engine_.get()] { engine->run(); });
  } catch (const std::system_error& error) {
    return fail(Errc::resource_limit, fmt::format("no thread for the data plane: {}", error.what()));
  }
  return self;
}

DataPlaneThread::~DataPlaneThread() {
  if (!thread_.joinable()) return;
  end_now();
  engine_->stop();
  thread_.join();
}

void DataPlaneThread::end_now() {
  std::promise<void> ended;
  run_on_engine([this, &ended] {
    plane_->end();
    ended.set_value();
  });
  ended.get_future().wait();
}

void DataPlaneThread::run_on_engine(engine::Engine::Task task) {
  // A session has a handful of commands under way, the queue room for thousands.
  [[maybe_unused]] const auto posted = engine_->post(std::move(task));
  assert(posted);
}

void DataPlaneThread::form(Epoch epoch, Rank rank, EpochPlan plan,
                           Handler<Result<std::vector<session::PeerBlob>>> answer) {
  run_on_engine([this, epoch, rank, plan, answer = std::move(answer)]() mutable {
    loop_.post([result = plane_->form(epoch, rank, plan), answer = std::move(answer)]() mutable {
      answer(std::move(result));
    });
  });
}

void DataPlaneThread::connect(std::vector<session::PeerBlob> blobs, Handler<Result<void>> answer) {
  run_on_engine([this, blobs = std::move(blobs), answer = std::move(answer)]() mutable {
    loop_.post([result = plane_->connect(blobs), answer = std::move(answer)]() mutable {
      answer(std::move(result));
    });
  });
}

void DataPlaneThread::start(group::Store& store, Handler<Result<void>> answer) {
  run_on_engine([this, &store, answer = std::move(answer)]() mutable {
    loop_.post(
        [result = plane_->start(store), answer = std::move(answer)]() mutable { answer(std::move(result)); });
  });
}

void DataPlaneThread::wait(Handler<std::optional<relay::Wait>> answer) {
  run_on_engine([this, answer = std::move(answer)]() mutable {
    loop_.post([result = plane_->wait(), answer = std::move(answer)]() mutable { answer(result); });
  });
}

void DataPlaneThread::end(Handler<> answer) {
  run_on_engine([this, answer = std::move(answer)]() mutable {
    plane_->end();
    loop_.post(std::move(answer));
  });
}

}  // namespace rdmc::bcast

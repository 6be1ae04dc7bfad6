#include "apps/bcast-cli/data_plane_proxy.hpp"

#include <functional>
#include <new>
#include <optional>
#include <utility>

#include "controlplane/peer/context.hpp"

namespace rdmc::bcast {
namespace {

/// The data plane speaks on the fabric's thread; what it says is carried over to the loop's.
DataPlane::Events on_loop(control::ControlLoop& loop, DataPlane::Events events) {
  const auto shared = std::make_shared<DataPlane::Events>(std::move(events));
  return {
      .delivered = [&loop, shared](Epoch epoch) { loop.post([shared, epoch] { shared->delivered(epoch); }); },
      .failed =
          [&loop, shared](Epoch epoch, std::optional<Rank> peer, const Error& error) {
            loop.post([shared, epoch, peer, error] { shared->failed(epoch, peer, error); });
          }};
}

/// On the fabric's thread, which must not wait: where there is no memory for it, the next turn tries again.
template <typename Task>
void post_to_loop(control::ControlLoop& loop, peer::FabricThread& thread, Task task) {
  try {
    loop.post(task);
  } catch (const std::bad_alloc&) {
    const auto again = thread.post([&loop, &thread, task] { post_to_loop(loop, thread, task); });
    if (!again) throw;  // then everything on the thread is told
  }
}

}  // namespace

Result<std::unique_ptr<DataPlaneProxy>> DataPlaneProxy::open(control::ControlLoop& loop,
                                                             const FabricChoice& fabric, Address address,
                                                             std::size_t ring_bytes,
                                                             DataPlane::Events events) {
  address.port = 0;
  auto thread = peer::Context::of_process()->fabric_thread({.fabric = fabric.name,
                                                            .address = address,
                                                            .device = fabric.device,
                                                            .encrypt = fabric.encrypt,
                                                            .dscp = fabric.dscp,
                                                            .idle = {}});
  if (!thread) return std::unexpected(thread.error());
  auto ring = (*thread)->make_arena(ring_bytes);
  if (!ring) return std::unexpected(ring.error());
  std::unique_ptr<DataPlaneProxy> self(new DataPlaneProxy(loop, std::move(*thread), std::move(events)));
  self->ring_ = std::move(*ring);
  return self;
}

DataPlaneProxy::DataPlaneProxy(control::ControlLoop& loop, std::shared_ptr<peer::FabricThread> thread,
                               DataPlane::Events events)
    : loop_(loop),
      thread_(std::move(thread)),
      plane_(thread_->fabric(), thread_->engine(), on_loop(loop, std::move(events))) {}

DataPlaneProxy::~DataPlaneProxy() {
  end_now();
}

void DataPlaneProxy::end_now() {
  thread_->call([this] { plane_.end(); });
}

template <typename Command, typename Answer>
void DataPlaneProxy::ask(Command command, Answer answer) {
  struct Asked {
    Command command;
    Answer answer;
    std::optional<std::invoke_result_t<Command>> result;
  };
  const auto asked = std::make_shared<Asked>(Asked{std::move(command), std::move(answer), {}});
  thread_->post_when_room([&loop = loop_, &thread = *thread_, asked] {
    asked->result.emplace(thread.call(std::ref(asked->command)));
    post_to_loop(loop, thread, [asked] {
      auto once = std::move(asked->answer);  // it ends on the loop, too
      once(std::move(*asked->result));
    });
  });
}

void DataPlaneProxy::form(Epoch epoch, Rank rank, EpochPlan plan,
                          Handler<Result<std::vector<session::PeerBlob>>> answer) {
  ask([this, epoch, rank, plan = std::move(plan)] { return plane_.form(epoch, rank, plan); },
      std::move(answer));
}

void DataPlaneProxy::connect(std::vector<session::PeerBlob> blobs, Handler<Result<void>> answer) {
  ask([this, blobs = std::move(blobs)] { return plane_.connect(blobs); }, std::move(answer));
}

void DataPlaneProxy::start(group::Store& store, Handler<Result<void>> answer) {
  ask([this, &store] { return plane_.start(store); }, std::move(answer));
}

void DataPlaneProxy::wait(Handler<std::optional<relay::Wait>> answer) {
  ask([this] { return plane_.wait(); }, std::move(answer));
}

void DataPlaneProxy::end(Handler<> answer) {
  ask([this] { return plane_.end(), true; }, [answer = std::move(answer)](bool) mutable { answer(); });
}

}  // namespace rdmc::bcast

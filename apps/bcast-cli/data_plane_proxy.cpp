#include "apps/bcast-cli/data_plane_proxy.hpp"

#include <functional>
#include <new>
#include <optional>
#include <utility>

#include "controlplane/peer/context.hpp"
#include "dataplane/base/clock.hpp"

namespace rdmc::bcast {
namespace {

/// The time between two attempts to post to the loop while memory is lacking.
constexpr Duration kTryAgain = milliseconds(1);

}  // namespace

/// The queue of functions that the fabric thread posts to the loop's thread, in order. If there is no memory
/// to post a function, the function waits here and is posted in a later turn of the engine. Waiting needs no
/// memory.
class DataPlaneProxy::ToLoop final : public engine::Poller {
 public:
  struct Entry {
    std::move_only_function<void()> run;
    std::shared_ptr<Entry> next = nullptr;
  };

  explicit ToLoop(control::ControlLoop& loop) : loop_(loop) {}
  /// Releases the entries one by one. Otherwise the end of a long list would be a deep recursion.
  ~ToLoop() override {
    while (first_ != nullptr) first_ = std::move(first_->next);
  }

  void post(std::shared_ptr<Entry> entry) {
    Entry* const last = entry.get();
    (first_ == nullptr ? first_ : last_->next) = std::move(entry);
    last_ = last;
    work(monotonic_now());
  }

  std::size_t work(Time now) override {
    std::size_t done = 0;
    for (; first_ != nullptr; ++done) {
      try {
        // The function is also destroyed on the loop's thread.
        loop_.post([entry = first_] { std::exchange(entry->run, nullptr)(); });
      } catch (const std::bad_alloc&) {
        try_at_ = now + kTryAgain;
        break;
      }
      first_ = std::move(first_->next);
    }
    return done;
  }
  Time next_deadline() const override { return first_ == nullptr ? Time::never() : try_at_; }

 private:
  control::ControlLoop& loop_;
  std::shared_ptr<Entry> first_;
  Entry* last_ = nullptr;
  Time try_at_{};
};

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
  // Getting all pages now would delay the first block by 20 ms. A page comes when a block needs it. Then the
  // link is busy with other blocks, except at the first one.
  auto ring = (*thread)->make_arena(ring_bytes, memory::Touch::when_used);
  if (!ring) return std::unexpected(ring.error());
  std::unique_ptr<DataPlaneProxy> self(new DataPlaneProxy(loop, std::move(*thread), std::move(events)));
  self->ring_ = std::move(*ring);
  auto added = self->thread_->call([&]() -> Result<void> {
    self->thread_->engine().add(*self->to_loop_);
    return {};
  });
  if (!added) return std::unexpected(added.error());
  return self;
}

DataPlaneProxy::DataPlaneProxy(control::ControlLoop& loop, std::shared_ptr<peer::FabricThread> thread,
                               DataPlane::Events events)
    : thread_(std::move(thread)),
      to_loop_(std::make_unique<ToLoop>(loop)),
      plane_(thread_->fabric(), thread_->engine(), on_loop(std::move(events))) {}

DataPlaneProxy::~DataPlaneProxy() {
  thread_->call([this] {
    plane_.end();
    thread_->engine().remove(*to_loop_);
  });
}

/// Returns events that the data plane can report on the fabric thread. They are passed on to the loop's
/// thread. If there is no memory for that, the data plane reports a failure later.
DataPlane::Events DataPlaneProxy::on_loop(DataPlane::Events events) {
  const auto shared = std::make_shared<DataPlane::Events>(std::move(events));
  const auto post = [this](std::move_only_function<void()> run) {
    to_loop_->post(std::make_shared<ToLoop::Entry>(ToLoop::Entry{std::move(run)}));
  };
  return {.delivered = [post, shared](Epoch epoch) { post([shared, epoch] { shared->delivered(epoch); }); },
          .failed =
              [post, shared](Epoch epoch, std::optional<Rank> peer, const Error& error) {
                post([shared, epoch, peer, error] { shared->failed(epoch, peer, error); });
              }};
}

void DataPlaneProxy::end_now() {
  thread_->call([this] { plane_.end(); });
}

template <typename Command, typename Answer>
void DataPlaneProxy::ask(Command command, Answer answer) {
  using Value = std::invoke_result_t<Command>;
  struct Asked {
    Command command;
    Value result{};
    std::shared_ptr<ToLoop::Entry> entry = std::make_shared<ToLoop::Entry>();
  };
  const auto asked = std::make_shared<Asked>(Asked{std::move(command)});
  asked->entry->run = [asked, answer = std::move(answer)]() mutable { answer(std::move(asked->result)); };
  try {
    thread_->post_when_room([this, asked] {
      try {
        asked->result = thread_->call(std::ref(asked->command));
      } catch (const std::bad_alloc&) {
      }  // The command does not return a Result, so its answer is an empty value. For a Result, call()
         // returns resource_limit and does not throw.
      to_loop_->post(std::move(asked->entry));
    });
  } catch (...) {
    asked->entry->run = {};  // This breaks the reference cycle with `asked`.
    throw;
  }
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

void DataPlaneProxy::standing(Handler<Standing> answer) {
  ask([this] { return Standing{plane_.wait(), plane_.find_lagging()}; }, std::move(answer));
}

void DataPlaneProxy::end(Handler<> answer) {
  ask([this] { return plane_.end(), true; }, [answer = std::move(answer)](bool) mutable { answer(); });
}

}  // namespace rdmc::bcast

#include "apps/bcast-cli/data_watch.hpp"

#include <utility>

namespace rdmc::bcast {
namespace {

/// Waits that matter last for many of these; asking costs the engine a task.
constexpr Duration kAskEvery = milliseconds(500);

}  // namespace

std::shared_ptr<DataWatch> DataWatch::start(control::ControlLoop& loop, DataPlaneProxy& plane, Handler tell) {
  std::shared_ptr<DataWatch> watch(new DataWatch(loop, plane, std::move(tell)));
  watch->ask();
  return watch;
}

void DataWatch::ask() {
  plane_.wait([weak = weak_from_this()](const std::optional<relay::Wait>& wait) {
    const auto self = weak.lock();
    if (!self) return;
    self->timer_ = self->loop_.after(kAskEvery, [weak] {
      if (const auto later = weak.lock()) later->ask();
    });
    self->tell_(wait);
  });
}

}  // namespace rdmc::bcast

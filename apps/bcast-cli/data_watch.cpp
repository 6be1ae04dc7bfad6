#include "apps/bcast-cli/data_watch.hpp"

#include <utility>

namespace rdmc::bcast {
namespace {

/// Only waits and lags that last for several intervals matter. Each question costs the fabric thread a task.
constexpr Duration kAskEvery = milliseconds(100);

}  // namespace

std::shared_ptr<DataWatch> DataWatch::start(control::ControlLoop& loop, DataPlaneProxy& plane, Handler tell) {
  std::shared_ptr<DataWatch> watch(new DataWatch(loop, plane, std::move(tell)));
  watch->ask();
  return watch;
}

void DataWatch::ask() {
  plane_.standing([weak = weak_from_this()](const DataPlaneProxy::Standing& standing) {
    const auto self = weak.lock();
    if (!self) return;
    self->timer_ = self->loop_.after(kAskEvery, [weak] {
      if (const auto later = weak.lock()) later->ask();
    });
    self->tell_(standing);
  });
}

}  // namespace rdmc::bcast

// Asks a running data plane from time to time what it waits for and who lags behind it, and tells the
// session, which judges stalls and finds stragglers by it. Owned by whoever runs the epoch, on the control
// loop's thread; destroying it ends the asking at once.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "apps/bcast-cli/data_plane_proxy.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "dataplane/relay/wait.hpp"

namespace rdmc::bcast {

class DataWatch : public std::enable_shared_from_this<DataWatch> {
 public:
  using Handler = std::function<void(const DataPlaneProxy::Standing&)>;

  /// `plane` outlives it; `tell` may destroy it.
  static std::shared_ptr<DataWatch> start(control::ControlLoop& loop, DataPlaneProxy& plane, Handler tell);

 private:
  DataWatch(control::ControlLoop& loop, DataPlaneProxy& plane, Handler tell)
      : loop_(loop), plane_(plane), tell_(std::move(tell)) {}
  void ask();

  control::ControlLoop& loop_;
  DataPlaneProxy& plane_;
  Handler tell_;
  control::Timer timer_;
};

}  // namespace rdmc::bcast

// Asks a running data plane at intervals what it waits for and which neighbours lag. Reports the answers to
// the session, which uses them to detect stalls and stragglers. The object that runs the epoch owns this
// object and uses it on the control loop's thread. When this object is destroyed, it asks no more.
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

  /// Starts to ask `plane`, which must outlive the returned object. `tell` gets the answers, and may destroy
  /// the returned object.
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

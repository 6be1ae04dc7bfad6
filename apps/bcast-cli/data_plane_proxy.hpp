// The DataPlane of one transfer, for use on the control loop's thread. The DataPlane runs on the fabric
// thread, which all transfers of the process share. This class passes commands to the DataPlane, and passes
// all answers and events back to the loop's thread. Handlers must keep alive what they use. They may be
// called until the object is destroyed. If an answer or event was posted before that, its handler may be
// called even later. The ring buffer lives as long as this object.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/bcast-cli/data_plane.hpp"
#include "apps/bcast-cli/fabric_choice.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "controlplane/peer/fabric_thread.hpp"
#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/memory/arena.hpp"

namespace rdmc::bcast {

class DataPlaneProxy {
 public:
  template <typename... Values>
  using Handler = std::move_only_function<void(Values...)>;

  /// Opens a data plane on the fabric thread for `address`, or for the device's own address if `fabric` names
  /// a device. The port number of `address` is ignored. Events are delivered on the loop's thread. Errors:
  /// those of peer::FabricThread::open, and resource_limit if there is no memory.
  static Result<std::unique_ptr<DataPlaneProxy>> open(control::ControlLoop& loop, const FabricChoice& fabric,
                                                      Address address, std::size_t ring_bytes,
                                                      DataPlane::Events events);
  /// Ends the epoch. No answer or event is posted after that. The handlers of answers and events that were
  /// posted before may still be called.
  ~DataPlaneProxy();
  DataPlaneProxy(const DataPlaneProxy&) = delete;
  DataPlaneProxy& operator=(const DataPlaneProxy&) = delete;

  // These functions call the functions of DataPlane on the fabric thread, in the order of the calls. If there
  // is no memory on that thread, the answer is resource_limit, and the answer of standing() is empty. However
  // long the lack of memory lasts, no answer is lost. If there is no memory on the caller's thread, the
  // functions throw std::bad_alloc, and there is no answer.
  void form(Epoch epoch, Rank rank, EpochPlan plan, Handler<Result<std::vector<session::PeerBlob>>> answer);
  void connect(std::vector<session::PeerBlob> blobs, Handler<Result<void>> answer);
  void start(group::Store& store, Handler<Result<void>> answer);
  void end(Handler<> answer);
  /// The results of DataPlane's wait() and find_lagging().
  struct Standing {
    std::optional<relay::Wait> wait;
    std::vector<Rank> lagging;
  };
  void standing(Handler<Standing> answer);
  /// Does the same as end(), but returns only when the epoch has ended. Used in destructors.
  void end_now();

  /// Wakes the fabric thread. Called by the I/O thread of a store. May be called from any thread.
  void wake() noexcept { thread_->wake(); }
  std::span<std::byte> ring() const { return ring_.bytes(); }
  /// Return the name of the fabric that was chosen, and the reason for the choice.
  const std::string& fabric_name() const { return thread_->fabric_name(); }
  const std::string& choice_reason() const { return thread_->reason(); }

 private:
  class ToLoop;
  DataPlaneProxy(control::ControlLoop& loop, std::shared_ptr<peer::FabricThread> thread,
                 DataPlane::Events events);
  DataPlane::Events on_loop(DataPlane::Events events);
  /// Runs `command` on the fabric thread. Then runs `answer` with its result on the loop's thread.
  template <typename Command, typename Answer>
  void ask(Command command, Answer answer);

  const std::shared_ptr<peer::FabricThread> thread_;
  memory::Arena ring_;
  const std::unique_ptr<ToLoop> to_loop_;
  DataPlane plane_;
};

}  // namespace rdmc::bcast

// The DataPlane of one transfer, as the control loop's thread sees it. The DataPlane lives on the process's
// fabric thread, which all transfers of the process share; this carries commands there, and brings all
// answers and events back to the loop's thread. Until it is destroyed an answer or event may come; whoever is
// called keeps itself alive. The ring lives as long as this does.
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

  /// Takes a part in the fabric thread at `address` (its own port number does not matter), or at that of its
  /// device. Events come on the loop's thread. Errors: those of peer::FabricThread::open, resource_limit
  /// (memory).
  static Result<std::unique_ptr<DataPlaneProxy>> open(control::ControlLoop& loop, const FabricChoice& fabric,
                                                      Address address, std::size_t ring_bytes,
                                                      DataPlane::Events events);
  /// Ends the epoch. From then on no answer or event is posted; one posted before may still come.
  ~DataPlaneProxy();
  DataPlaneProxy(const DataPlaneProxy&) = delete;
  DataPlaneProxy& operator=(const DataPlaneProxy&) = delete;

  // DataPlane's functions, run on the fabric's thread in the order called. One that meets the end of memory
  // there answers resource_limit, and standing() that it knows of nothing. However long that lasts, no answer
  // is lost. They throw std::bad_alloc where the caller's thread has no memory to ask; then there is no
  // answer.
  void form(Epoch epoch, Rank rank, EpochPlan plan, Handler<Result<std::vector<session::PeerBlob>>> answer);
  void connect(std::vector<session::PeerBlob> blobs, Handler<Result<void>> answer);
  void start(group::Store& store, Handler<Result<void>> answer);
  void end(Handler<> answer);
  /// DataPlane's wait() and find_lagging().
  struct Standing {
    std::optional<relay::Wait> wait;
    std::vector<Rank> lagging;
  };
  void standing(Handler<Standing> answer);
  /// As end(), and waits for it; for destructors.
  void end_now();

  /// For a store's I/O thread; any thread.
  void wake() noexcept { thread_->wake(); }
  std::span<std::byte> ring() const { return ring_.bytes(); }
  /// The fabric that was chosen, and why.
  const std::string& fabric_name() const { return thread_->fabric_name(); }
  const std::string& choice_reason() const { return thread_->reason(); }

 private:
  class ToLoop;
  DataPlaneProxy(control::ControlLoop& loop, std::shared_ptr<peer::FabricThread> thread,
                 DataPlane::Events events);
  DataPlane::Events on_loop(DataPlane::Events events);
  /// Runs `command` on the fabric's thread, and `answer` with its result on the loop's.
  template <typename Command, typename Answer>
  void ask(Command command, Answer answer);

  const std::shared_ptr<peer::FabricThread> thread_;
  memory::Arena ring_;
  const std::unique_ptr<ToLoop> to_loop_;
  DataPlane plane_;
};

}  // namespace rdmc::bcast

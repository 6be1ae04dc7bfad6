// The engine thread of one transfer: it owns a fabric and the DataPlane, and takes
// commands from the control loop's thread, on which all answers and events come back. Until close() an answer
// or event may come; whoever is called keeps itself alive. The ring lives as long as this does.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "apps/bcast-cli/data_plane.hpp"
#include "apps/bcast-cli/fabric_choice.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/engine/engine.hpp"
#include "dataplane/fabric/standard_fabrics.hpp"
#include "dataplane/memory/arena.hpp"
#include "lib/group/fabric_agent.hpp"

namespace rdmc::bcast {

class DataPlaneThread {
 public:
  template <typename... Values>
  using Handler = std::move_only_function<void(Values...)>;

  /// Opens a fabric at `address` (its own port number does not matter: it is
  /// fabric::open_reachable_fabric's), or at that of its device, and starts the thread. Events come on the
  /// loop's thread. Errors: of fabric::open_fabric, resource_limit (memory, threads).
  static Result<std::unique_ptr<DataPlaneThread>> open(control::ControlLoop& loop, const FabricChoice& fabric,
                                                       Address address, std::size_t ring_bytes,
                                                       DataPlane::Events events);
  /// Ends the epoch and the thread. From then on no answer or event is posted; one posted before may still
  /// come.
  ~DataPlaneThread();

  // DataPlane's functions, run on the engine's thread in the order called.
  void form(Epoch epoch, Rank rank, EpochPlan plan, Handler<Result<std::vector<session::PeerBlob>>> answer);
  void connect(std::vector<session::PeerBlob> blobs, Handler<Result<void>> answer);
  void start(group::Store& store, Handler<Result<void>> answer);
  void end(Handler<> answer);
  void wait(Handler<std::optional<relay::Wait>> answer);
  /// The same, and waits for it; for destructors.
  void end_now();

  /// For a store's I/O thread; any thread.
  void wake() noexcept { opened_.fabric->wake(); }
  std::span<std::byte> ring() const { return ring_.bytes(); }
  /// The fabric that was chosen, and why.
  const std::string& fabric_name() const { return opened_.name; }
  const std::string& choice_reason() const { return opened_.reason; }

 private:
  explicit DataPlaneThread(control::ControlLoop& loop) : loop_(loop) {}
  void run_on_engine(engine::Engine::Task task);

  control::ControlLoop& loop_;
  memory::Arena ring_;
  fabric::OpenedFabric opened_;
  std::unique_ptr<group::FabricAgent> agent_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<DataPlane> plane_;
  std::thread thread_;
};

}  // namespace rdmc::bcast

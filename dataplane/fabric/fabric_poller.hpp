// The poller of a fabric. In each turn of the engine, it calls the fabric's progress(). If there is nothing
// to do, it lets the engine sleep until the fabric has something to do. The fabric must outlive this object.
#pragma once

#include <vector>

#include "dataplane/engine/engine.hpp"
#include "dataplane/fabric/queue_pair.hpp"

namespace rdmc::fabric {

class FabricPoller : public engine::Poller, public engine::Waiter {
 public:
  explicit FabricPoller(Fabric& fabric) : fabric_(fabric) {}
  std::size_t work(Time now) override { return last_progress_ = fabric_.progress(now); }
  Time next_deadline() const override { return fabric_.next_deadline(); }
  void wait(Time deadline) override { fabric_.wait(deadline); }
  void wake() noexcept override { fabric_.wake(); }
  void pause() override { fabric_.pause(); }
  Result<std::vector<int>> wait_descriptors() { return fabric_.wait_descriptors(); }
  Time prepare_wait(Time deadline) override { return fabric_.prepare_wait(deadline); }
  void finish_wait() override { fabric_.finish_wait(); }
  /// Returns the result of the fabric's progress() in the last turn. Must be called on the engine's thread.
  std::size_t last_progress() const { return last_progress_; }

 private:
  Fabric& fabric_;
  std::size_t last_progress_ = 0;
};

}  // namespace rdmc::fabric

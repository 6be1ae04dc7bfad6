// Gives a fabric its turn on an engine and lets the engine sleep on it.
#pragma once

#include "dataplane/engine/engine.hpp"
#include "dataplane/fabric/queue_pair.hpp"

namespace rdmc::group {

class FabricAgent final : public engine::Agent, public engine::Waiter {
 public:
  explicit FabricAgent(fabric::Fabric& fabric) : fabric_(fabric) {}
  std::size_t work(Time now) override { return fabric_.progress(now); }
  Time next_deadline() const override { return fabric_.next_deadline(); }
  void wait(Time deadline) override { fabric_.wait(deadline); }
  void wake() noexcept override { fabric_.wake(); }
  void pause() override { fabric_.pause(); }

 private:
  fabric::Fabric& fabric_;
};

}  // namespace rdmc::group

// A driver for tests whose answers are given beforehand; its ports carry nothing.
#pragma once

#include <string>
#include <vector>

#include "dataplane/port/driver.hpp"

namespace rdmc::port::test {

class NullPort final : public Port {
 public:
  NullPort(std::string driver, std::vector<std::string> notes) {
    info_.driver = std::move(driver);
    info_.notes = std::move(notes);
  }
  const PortInfo& info() const noexcept override { return info_; }
  Result<FlowId> open_flow() override { return kSharedFlow; }
  std::uint16_t udp_port(FlowId) const override { return 0; }
  void close_flow(FlowId) override {}
  std::size_t send_burst(std::span<const TxTrain>) override { return 0; }
  std::size_t receive_burst(LandingPlanner&, std::span<RxTrain>) override { return 0; }
  void wait(Time) override {}
  void wake() noexcept override {}
  const PortCounters& counters() const noexcept override { return counters_; }

 private:
  PortInfo info_;
  PortCounters counters_;
};

class FakeDriver final : public Driver {
 public:
  FakeDriver(std::string name, Usability usability, bool opens = true, std::vector<std::string> notes = {})
      : name_(std::move(name)), usability_(std::move(usability)), opens_(opens), notes_(std::move(notes)) {}

  std::string_view name() const noexcept override { return name_; }
  Usability probe(const PortRequest&) override { return usability_; }
  std::array<PortRequest, 2> pair_on_this_host(std::string_view) override { return {}; }
  Result<std::unique_ptr<Port>> open(const PortRequest&) override {
    if (!opens_) return fail(Errc::io_error, name_ + " broke");
    return std::make_unique<NullPort>(name_, notes_);
  }

 private:
  std::string name_;
  Usability usability_;
  bool opens_;
  std::vector<std::string> notes_;
};

}  // namespace rdmc::port::test

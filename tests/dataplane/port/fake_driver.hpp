// A packet driver for tests. The test chooses its answers. Its ports transfer nothing.
#pragma once

#include <string>
#include <vector>

#include "dataplane/port/driver.hpp"
#include "tests/dataplane/port/memory_port.hpp"

namespace rdmc::port::test {

class FakeDriver final : public Driver {
 public:
  FakeDriver(std::string name, Usability usability, bool opens = true, std::vector<std::string> notes = {})
      : name_(std::move(name)), usability_(std::move(usability)), opens_(opens), notes_(std::move(notes)) {}

  std::string_view name() const noexcept override { return name_; }
  Usability probe(const PortRequest&) override { return usability_; }
  std::array<PortRequest, 2> pair_on_this_host() override { return {}; }
  Result<std::unique_ptr<Port>> open(const PortRequest&) override {
    if (!opens_) return fail(Errc::io_error, name_ + " broke");
    return std::make_unique<testing::MemoryPort>(PortInfo{.driver = name_, .notes = notes_});
  }

 private:
  std::string name_;
  Usability usability_;
  bool opens_;
  std::vector<std::string> notes_;
};

}  // namespace rdmc::port::test

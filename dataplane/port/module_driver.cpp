#include "dataplane/port/module_driver.hpp"

#include <utility>

#include "dataplane/base/module.hpp"

namespace rdmc::port {
namespace {

constexpr const char* kDriverSymbol = "rdmc_make_port_driver";

class ModuleDriver final : public Driver {
 public:
  explicit ModuleDriver(Module module) : module_(std::move(module)) {}

  std::string_view name() const noexcept override { return module_.name; }

  Usability probe(const PortRequest& request) override {
    if (request.device.empty()) return {.reason = "no device is named", .remedy = module_.devices};
    if (!driver_) {
      if (auto loaded = load(); !loaded) {
        const bool installed = loaded.error().code == Errc::resource_limit;
        return {.reason = std::move(loaded.error().what),
                .remedy = installed ? "ulimit -n 65536" : module_.remedy};
      }
    }
    return driver_->probe(request);
  }

  std::array<PortRequest, 2> pair_on_this_host() override {
    if (!driver_ && !load()) return {};
    return driver_->pair_on_this_host();
  }

  Result<std::unique_ptr<Port>> open(const PortRequest& request) override {
    if (!driver_) {
      if (auto loaded = load(); !loaded) return std::unexpected(std::move(loaded.error()));
    }
    return driver_->open(request);
  }

 private:
  Result<void> load() {
    const auto make = find_in_module(module_.file, kDriverSymbol);
    if (!make) return std::unexpected(make.error());
    driver_.reset(reinterpret_cast<Driver* (*)()>(*make)());
    return {};
  }

  Module module_;
  std::unique_ptr<Driver> driver_;  // Null until the module is loaded.
};

}  // namespace

std::unique_ptr<Driver> module_driver(Module module) {
  return std::make_unique<ModuleDriver>(std::move(module));
}

}  // namespace rdmc::port

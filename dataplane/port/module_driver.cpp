#include "dataplane/port/module_driver.hpp"

#include <dlfcn.h>

#include <utility>

namespace rdmc::port {
namespace {

constexpr const char* kVersionSymbol = "rdmc_port_module_version";
constexpr const char* kDriverSymbol = "rdmc_make_port_driver";

class ModuleDriver final : public Driver {
 public:
  explicit ModuleDriver(Module module) : module_(std::move(module)) {}

  std::string_view name() const noexcept override { return module_.name; }

  Usability probe(const PortRequest& request) override {
    if (request.device.empty()) return {.reason = "no device is named", .remedy = module_.devices};
    if (!driver_) {
      if (auto loaded = load(); !loaded) {
        return {.reason = std::move(loaded.error().what), .remedy = module_.remedy};
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
    // Never unloaded: ports run its code, and libraries like DPDK's leave threads and maps behind.
    void* const handle = dlopen(module_.file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == nullptr) return fail(Errc::unsupported, dlerror());
    const auto version = reinterpret_cast<const char* (*)()>(dlsym(handle, kVersionSymbol));
    const auto make = reinterpret_cast<Driver* (*)()>(dlsym(handle, kDriverSymbol));
    if (version == nullptr || make == nullptr)
      return fail(Errc::unsupported, module_.file + " is not a module of rdmc");
    // Classes cross the boundary: only the very same version has the same ones.
    if (const std::string_view theirs = version(); theirs != RDMC_VERSION) {
      return fail(Errc::version_mismatch,
                  module_.file + " is of version " + std::string(theirs) + ", this program of " RDMC_VERSION);
    }
    driver_.reset(make());
    return {};
  }

  Module module_;
  std::unique_ptr<Driver> driver_;  // once loaded
};

}  // namespace

std::unique_ptr<Driver> module_driver(Module module) {
  return std::make_unique<ModuleDriver>(std::move(module));
}

}  // namespace rdmc::port

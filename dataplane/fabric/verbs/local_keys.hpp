// Which local key lets the device read and write the memory that a work names. Memory is registered when a
// region or a work first names it, and stays so for the next one, for as long as it is mapped as it was. It
// exists so that whoever posts a work need not know that a NIC knows memory by keys. These registrations give
// peers no rights. Owned by a VerbsFabric; its thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>

#include "dataplane/base/error.hpp"
#include "dataplane/fabric/verbs/verbs_handle.hpp"
#include "dataplane/memory/mapping_watch.hpp"

namespace rdmc::fabric {

class LocalKeys {
 public:
  /// Registrations kept though nothing uses them; each pins its pages.
  static constexpr std::size_t kMostKept = 256;

  explicit LocalKeys(ibv_pd* domain);

  /// Who names the memory: a region vouches that it stays mapped, a work only until it is over.
  enum class Holder : std::uint8_t { region, work };
  enum class Use : std::uint8_t { read, write };  ///< by the device
  struct Registration;
  struct Lease {
    std::uint32_t key = 0;
    Registration* registration = nullptr;  ///< none: no lease
  };

  /// Errors: those of register_with_device.
  Result<Lease> lease(std::span<const std::byte> memory, Holder holder, Use use);
  /// Its holder is over.
  void release(const Lease& lease, Holder holder);

  /// Registrations made so far.
  std::uint64_t registrations() const { return registrations_; }

  struct Registration {
    std::span<const std::byte> pages;
    VerbsHandle<ibv_mr> handle;
    std::uint32_t works = 0, regions = 0;
    std::uint64_t last_use = 0;
    bool writable = false;
    bool watched = false;  ///< else it goes with its last holder
    bool gone = false;     ///< not what is mapped there now
  };

 private:
  void drop_what_has_gone();
  Registration* find(std::span<const std::byte> memory, Use use);
  void forget(std::list<Registration>::iterator one);
  Result<Registration*> make(std::span<const std::byte> memory, Use use);

  ibv_pd* domain_;
  std::unique_ptr<memory::MappingWatch> mappings_;  // none: the kernel does not tell
  std::list<Registration> known_;                   // the one found last comes first
  std::uint64_t uses_ = 0, registrations_ = 0;
};

/// Pins `memory` and makes it known to the device under `address`. Errors: resource_limit, naming the limit
/// on locked memory if that is the cause; those of the operating system.
Result<VerbsHandle<ibv_mr>> register_with_device(ibv_pd* domain, std::span<const std::byte> memory,
                                                 std::uint64_t address, int access);

}  // namespace rdmc::fabric

// Finds the local key with which the device reads and writes the memory that a work request names, so that
// applications need not know these keys. Memory is registered when a region or a work request first names it.
// The registration is kept for later regions and work requests, as long as the same memory stays mapped at
// this address. These registrations give peers no rights. Owned by a VerbsFabric; used on its thread.
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
  /// The maximum number of registrations that are kept without being used. Each of them pins its pages.
  static constexpr std::size_t kMostKept = 256;

  explicit LocalKeys(ibv_pd* domain);

  /// The user of the memory. A region guarantees that the memory stays mapped. A work request guarantees this
  /// only until the work request ends.
  enum class Holder : std::uint8_t { region, work };
  enum class Use : std::uint8_t { read, write };  ///< The access of the device to the memory.
  struct Registration;
  struct Lease {
    std::uint32_t key = 0;
    Registration* registration = nullptr;  ///< Null if the lease is empty.
  };

  /// Returns the local key for `memory`, for the time until release(). Errors: those of register_with_device.
  Result<Lease> lease(std::span<const std::byte> memory, Holder holder, Use use);
  /// Ends the lease. Must be called when the holder of the lease ends.
  void release(const Lease& lease, Holder holder);

  /// The number of registrations made so far.
  std::uint64_t registrations() const { return registrations_; }

  struct Registration {
    std::span<const std::byte> pages;
    VerbsHandle<ibv_mr> handle;
    std::uint32_t works = 0, regions = 0;
    std::uint64_t last_use = 0;
    bool writable = false;
    bool watched = false;  ///< If false, the registration ends with its last holder.
    bool gone = false;     ///< True if other memory may now be mapped at these addresses.
  };

 private:
  void drop_what_has_gone();
  Registration* find(std::span<const std::byte> memory, Use use);
  void forget(std::list<Registration>::iterator one);
  Result<Registration*> make(std::span<const std::byte> memory, Use use);

  ibv_pd* domain_;
  std::unique_ptr<memory::MappingWatch> mappings_;  // Null if the kernel does not report changes of mappings.
  std::list<Registration> known_;  // The list begins with the registration that was found last.
  std::uint64_t uses_ = 0, registrations_ = 0;
};

/// Pins `memory` and registers it with the device under `address`. Errors: resource_limit (the text names the
/// limit on locked memory if that is the cause), and the errors of the operating system.
Result<VerbsHandle<ibv_mr>> register_with_device(ibv_pd* domain, std::span<const std::byte> memory,
                                                 std::uint64_t address, int access);

}  // namespace rdmc::fabric

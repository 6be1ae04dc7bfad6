// Registers memory that peers may access through a NIC.
#include "dataplane/fabric/verbs/verbs_fabric.hpp"
#include "dataplane/fabric/verbs/verbs_queue_pair.hpp"
#include "dataplane/fabric/verbs/verbs_terms.hpp"

namespace rdmc::fabric {
namespace {

/// If the address that peers use equals the local address modulo this number, the device can map large pages
/// as large pages.
constexpr std::uint64_t kAlikeBytes = 2 << 20;

}  // namespace

/// A region and its registration with a remote key. The remote key ends with the registration: from then on,
/// the device refuses requests that name the key. Work requests use another registration, which gives peers
/// no rights. It may be shared and may be kept.
class VerbsFabric::Region final : public MemoryRegion {
 public:
  Region(VerbsFabric& fabric, LocalKeys::Lease local, VerbsHandle<ibv_mr> handle, std::uint64_t address)
      : fabric_(fabric), local_(local), handle_(std::move(handle)), address_(address) {}
  ~Region() override {
    if (handle_) fabric_.revoke(std::move(handle_));
    fabric_.local_keys_.release(local_, LocalKeys::Holder::region);
  }
  RemoteKey remote_key() const noexcept override { return RemoteKey{handle_ ? handle_->rkey : 0}; }
  std::uint64_t remote_address() const noexcept override { return address_; }
  void grant(VerbsHandle<ibv_mr> handle, std::uint64_t address) {
    handle_ = std::move(handle);
    address_ = address;
  }

 private:
  VerbsFabric& fabric_;
  LocalKeys::Lease local_;
  VerbsHandle<ibv_mr> handle_;  // Null for a region without bytes or without rights.
  std::uint64_t address_;
};

void VerbsFabric::revoke(VerbsHandle<ibv_mr> region) {
  // If the key stays valid, peers can still write this memory and so spread wrong bytes. Therefore no queue
  // pair may continue.
  if (ibv_dereg_mr(region.release()) != 0) fail_all("the RDMA device did not take back a remote key");
}

/// Returns a random address for peers. It does not reveal the layout of this process's memory. A device may
/// use a key again, but then with another address. So an old key with its old address is not valid.
std::uint64_t VerbsFabric::fresh_address(std::span<const std::byte> memory) {
  const std::uint64_t random = std::uint64_t{entropy_()} << 14 ^ entropy_();
  return random % (std::uint64_t{1} << 25) * kAlikeBytes +
         reinterpret_cast<std::uint64_t>(memory.data()) % kAlikeBytes;
}

Result<std::unique_ptr<MemoryRegion>> VerbsFabric::register_memory(std::span<std::byte> memory, MemoryUse,
                                                                   RemoteAccess access) {
  if (auto works = check_device(); !works) return std::unexpected(works.error());
  if (permits(access, RemoteAccess::invalidate))
    return fail(Errc::unsupported, "a NIC's region cannot be invalidated by a peer");
  if (permits(access, RemoteAccess::atomic) && device_.limits.atomic_cap == IBV_ATOMIC_NONE)
    return fail(Errc::unsupported, device_.name + " has no atomics");
  if (memory.empty()) return std::make_unique<Region>(*this, LocalKeys::Lease{}, nullptr, 0);
  const auto use = access == RemoteAccess::none ? LocalKeys::Use::read : LocalKeys::Use::write;
  const auto local = local_keys_.lease(memory, LocalKeys::Holder::region, use);
  if (!local) return std::unexpected(local.error());
  auto region = std::make_unique<Region>(*this, *local, nullptr, 0);
  if (access == RemoteAccess::none) return region;
  const std::uint64_t address = fresh_address(memory);
  auto handle = register_with_device(device_.domain.get(), memory, address, access_flags(access));
  if (!handle) return std::unexpected(handle.error());
  region->grant(std::move(*handle), address);
  return region;
}

}  // namespace rdmc::fabric

// A LocalPeer belongs to a queue pair whose peer is a process on this host and shares memory with this
// process. It has functions that work requests cannot provide. Only the shm provider has such objects.
// QueuePair::local_peer() returns the object, and the queue pair owns it. Used on the fabric thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/fabric/peer_memory.hpp"
#include "dataplane/memory/shared_pages.hpp"

namespace rdmc::fabric {

/// Describes where a peer on the same host finds memory of this process. Only the two providers, on this side
/// and on the peer's side, look into it.
struct MappingOffer {
  std::uint32_t arena = 0;
  std::uint64_t offset = 0;
  friend bool operator==(const MappingOffer&, const MappingOffer&) = default;
};
/// A peer's memory that is mapped here for reading. It stays mapped as long as `keeper` exists.
struct MappedMemory {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keeper;
};

class LocalPeer {
 public:
  virtual ~LocalPeer() = default;

  /// Redirects the peer's next WRITE to the local region of this key. If that WRITE has exactly where.size()
  /// bytes, it is placed in `where` and not in the region, and its completion has `redirected` set. An empty
  /// `where` cancels the redirection. Use this function for memory that becomes known only after the peer has
  /// posted the WRITE. Returns false if the placement of that WRITE has begun, or if the queue pair has
  /// failed.
  virtual bool redirect_write(RemoteKey key, std::span<std::byte> where) = 0;

  /// Lets the peer read `bytes` in place, without a copy. The caller must send the returned offer to the peer
  /// by other means, and must not change `bytes` while the peer reads them. Returns nullopt if `bytes` is not
  /// in memory that make_arena() made, or if the queue pair has failed.
  virtual std::optional<MappingOffer> offer_mapping(std::span<const std::byte> bytes) = 0;
  /// Maps `bytes` bytes of memory that the peer has offered. Errors: protocol_error if the peer has offered
  /// no such memory, peer_failed.
  virtual Result<MappedMemory> map(const MappingOffer& offer, std::uint64_t bytes) = 0;

  /// Gives pages to the peer, which may write them. Returns false if that is not possible now.
  virtual bool share_pages(const memory::SharedPages& pages) = 0;
  /// Returns the pages that the peer has given to this side. Returns them only once; returns nullopt if there
  /// are none.
  virtual std::optional<memory::SharedPages> take_shared_pages() = 0;
  /// Returns an object that reads the memory of the peer's process. Returns null if the kernel does not
  /// permit that. The object may outlive the queue pair.
  virtual std::shared_ptr<const PeerMemory> peer_memory() const = 0;
};

}  // namespace rdmc::fabric

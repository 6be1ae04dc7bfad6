// A connection blob may carry two offers: one for memory that is shared on one host, and one for a queue pair
// over a network. Each provider reads only its own offer. So a member that chooses the provider for each pair
// of members can connect to a member that always uses one provider.
#pragma once

#include <cstddef>
#include <span>

#include "dataplane/fabric/queue_pair.hpp"

namespace rdmc::fabric {

struct BlobOffers {
  std::span<const std::byte> local;  ///< The offer for shared memory. Empty if there is none.
  /// The offer for a queue pair over a network. If the blob has only one offer, the whole blob is here, even
  /// if the offer is for shared memory.
  std::span<const std::byte> remote;
};

/// Joins two offers to one blob. Precondition: `local` has less than 64 KB.
ConnectionBlob join_offers(const ConnectionBlob& local, const ConnectionBlob& remote);
/// Finds the offers in a blob. Never fails: a blob that is not a pair of offers counts as a single offer.
BlobOffers split_offers(std::span<const std::byte> blob);

}  // namespace rdmc::fabric

// A connection blob may carry two offers: one for memory that is shared on one host, and one for a queue pair
// over a network. A provider that receives such a blob takes its own part. So members that choose a provider
// by themselves can connect to members that were told which fabric to use.
#pragma once

#include <cstddef>
#include <span>

#include "dataplane/fabric/queue_pair.hpp"

namespace rdmc::fabric {

struct BlobOffers {
  std::span<const std::byte> local;   ///< Empty if there is none.
  std::span<const std::byte> remote;  ///< A blob with a single offer is here as a whole, whatever it offers.
};

/// Precondition: `local` has less than 64 KB.
ConnectionBlob join_offers(const ConnectionBlob& local, const ConnectionBlob& remote);
/// Never fails. A blob that is not a pair of offers counts as a single offer.
BlobOffers split_offers(std::span<const std::byte> blob);

}  // namespace rdmc::fabric

// A connection blob may carry two offers: of memory shared on one host, and of a queue pair over a network. A
// provider that is handed such a blob takes its own part, so that members that choose by themselves and
// members that were told which fabric to use understand each other.
#pragma once

#include <cstddef>
#include <span>

#include "dataplane/fabric/queue_pair.hpp"

namespace rdmc::fabric {

struct BlobOffers {
  std::span<const std::byte> local;   ///< empty: none
  std::span<const std::byte> remote;  ///< a blob that carries one offer is here whole, whatever it offers
};

/// `local` has less than 64 KB.
ConnectionBlob join_offers(const ConnectionBlob& local, const ConnectionBlob& remote);
/// Never fails: what is no pair of offers is one.
BlobOffers split_offers(std::span<const std::byte> blob);

}  // namespace rdmc::fabric

// The ring: an all_gather of long parts. Each rank passes on to the next rank what it has received from the
// rank before it. A function without state; the memory belongs to the caller.
#pragma once

#include <cstddef>
#include <span>

#include "dataplane/base/error.hpp"
#include "lib/replica/exchange.hpp"
#include "lib/replica/parts.hpp"

namespace rdmc::replica::collectives {

/// Collects the parts of all ranks in `all`, which already has the own part. Long parts are passed on in
/// blocks of `block_bytes`. n - 1 steps if each part is one block. No scratch memory.
Result<void> gather_in_ring(Exchange& exchange, std::span<std::byte> all, const PartLengths& lengths,
                            std::size_t block_bytes);

}  // namespace rdmc::replica::collectives

// The collective operations of rank programs. They are functions over an Exchange, so they contain no I/O, no
// clock and no threads. All ranks of the Exchange must call the same function, in the same order, with
// lengths, a root and a Tuning that agree. Messages of a collective operation must not match receives of the
// program, so they need an Exchange of their own.
//
// Memory: the spans belong to the caller. When a function returns, also with an error, no request uses them
// any more. A function has at most 64 requests in flight. "Scratch memory" is what a function allocates until
// it returns. Up to 2 KiB of it are on the stack.
//
// Errors: invalid_argument if a length does not fit, a root is not a rank, or a Combine is null; nothing has
// then been sent. resource_limit if there is no scratch memory. Otherwise the first error of a send or
// receive; the other ranks may then wait for this rank, so the program cannot continue with this Exchange.
//
// Symbols in the comments: n is size(). A step is the time in which each rank sends one message and receives
// one message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <rdmc/replica.hpp>

#include "dataplane/base/error.hpp"
#include "lib/replica/exchange.hpp"
#include "lib/replica/tuning.hpp"

namespace rdmc::replica::collectives {

/// Returns when all ranks have called it. ceil(log2 n) steps: the dissemination barrier (Hensgen, Finkel and
/// Manber 1988). No scratch memory.
Result<void> barrier(Exchange& exchange);

/// Copies `bytes` of `root` to all ranks. The length must be the same at all ranks. A short message goes down
/// a binomial tree, in ceil(log2 n) steps. A long one is cut into k blocks, which follow the binomial
/// pipeline (RDMC, section 3) in k - 1 + ceil(log2 n) steps. No scratch memory.
Result<void> broadcast(Exchange& exchange, std::span<std::byte> bytes, int root, const Tuning& tuning = {});

/// Returns the length of the blocks in which broadcast() sends a message of `bytes` bytes to `size` ranks. It
/// returns `bytes` if the message goes down the tree.
std::size_t broadcast_block_bytes(std::size_t bytes, int size, const Tuning& tuning = {});

// -- Parts. `all` has one part for each rank, in the order of the ranks, without gaps. A part may be empty.
// The memory of `all` may contain `mine`, if `mine` is then the own part of `all`. In the functions with
// `bytes`, bytes[i] is the length of the part of rank i, and all.size() must be the sum of the lengths. --

/// Collects the parts of all ranks at `root`. `all` is used only there. Parts of at most
/// Tuning::tree_part_bytes go along a binomial tree in ceil(log2 n) steps, and need scratch memory for at
/// most n / 2 parts at ranks other than the root. Longer parts are sent directly to the root.
Result<void> gather(Exchange& exchange, std::span<const std::byte> mine, std::span<std::byte> all, int root,
                    const Tuning& tuning = {});
/// The same with different lengths. `bytes` is used only at the root. All parts are sent directly to the
/// root, because the other ranks do not know the lengths. No scratch memory.
Result<void> gather(Exchange& exchange, std::span<const std::byte> mine, std::span<std::byte> all,
                    std::span<const std::size_t> bytes, int root);

/// The opposites of gather(), with the same steps and the same scratch memory.
Result<void> scatter(Exchange& exchange, std::span<const std::byte> all, std::span<std::byte> mine, int root,
                     const Tuning& tuning = {});
Result<void> scatter(Exchange& exchange, std::span<const std::byte> all, std::span<const std::size_t> bytes,
                     std::span<std::byte> mine, int root);

/// Like gather(), but all ranks get all parts. Short parts: ceil(log2 n) steps (Bruck and others 1997).
/// Parts with an average of at least Tuning::start_bytes: a ring, in which each rank receives from the rank
/// before it. No scratch memory.
Result<void> all_gather(Exchange& exchange, std::span<const std::byte> mine, std::span<std::byte> all,
                        const Tuning& tuning = {});
/// The same with different lengths. All ranks must give the same lengths.
Result<void> all_gather(Exchange& exchange, std::span<const std::byte> mine, std::span<std::byte> all,
                        std::span<const std::size_t> bytes, const Tuning& tuning = {});

/// Part i of `to` goes to rank i. Part i of `from` comes from rank i. The memory of `to` and `from` must not
/// overlap. If the parts are not longer than Tuning::forwarded_part_bytes and there are more than 4 ranks:
/// ceil(log2 n) steps (Bruck and others 1997), and scratch memory of 2 x to.size(). Otherwise n - 1 steps
/// with direct messages, and no scratch memory.
Result<void> all_to_all(Exchange& exchange, std::span<const std::byte> to, std::span<std::byte> from,
                        const Tuning& tuning = {});
/// The same with different lengths: part i of `to` has to_bytes[i] bytes, and part i of `from` has
/// from_bytes[i] bytes. Direct messages; empty parts are not sent. No scratch memory.
Result<void> all_to_all(Exchange& exchange, std::span<const std::byte> to,
                        std::span<const std::size_t> to_bytes, std::span<std::byte> from,
                        std::span<const std::size_t> from_bytes);

// -- Reductions. `values` consists of elements of `element` bytes, and has the same length at all ranks.
// Element i of the result is made of the elements i of all ranks, in the order of the ranks. The Combine must
// be associative, apart from rounding; it need not be commutative.
//
// reduce(), all_reduce() and reduce_scatter() always combine in the same grouping, which depends only on n:
// if n is not a power of two, the first ranks are combined in pairs until a power of two of values is left.
// Then neighbours are combined until one value is left. So a result does not depend on the root, the length
// of the vector, the algorithm or the timing. All ranks get the same bits. --

/// `values` of `root` is overwritten with the result. The content of `values` at other ranks is undefined
/// after the call. Short vectors: ceil(log2 n) steps along a binomial tree. Long vectors: each rank combines
/// one part of the vector and sends it to the root (Rabenseifner 2004). The scratch memory is at most four
/// blocks of Tuning::block_bytes, or Tuning::direct_reduction_bytes.
Result<void> reduce(Exchange& exchange, std::span<std::byte> values, std::size_t element, Combine combine,
                    int root, const Tuning& tuning = {});

/// `values` of all ranks is overwritten with the result. Of three algorithms, the cheapest one for the length
/// is used: recursive doubling with whole vectors, recursive halving and doubling (Rabenseifner 2004; Thakur,
/// Rabenseifner and Gropp 2005), or reduce_scatter() with direct messages and then a ring. The scratch memory
/// is at most Tuning::whole_vector_bytes, four blocks of Tuning::block_bytes, or
/// Tuning::direct_reduction_bytes.
Result<void> all_reduce(Exchange& exchange, std::span<std::byte> values, std::size_t element, Combine combine,
                        const Tuning& tuning = {});

/// Combines the values of all ranks, and gives part i of the result to rank i. `values` has n parts of
/// mine.size() bytes each, and its content is undefined after the call. A short vector is reduced by
/// all_reduce(). For a long one, each rank gets the values of its part directly from all ranks. The scratch
/// memory is that of all_reduce().
Result<void> reduce_scatter(Exchange& exchange, std::span<std::byte> values, std::span<std::byte> mine,
                            std::size_t element, Combine combine, const Tuning& tuning = {});

/// Rank i gets the combined values of the ranks 0 to i. ceil(log2 n) steps for each Tuning::block_bytes of
/// the vector (Hillis and Steele 1986). The grouping of rank i depends only on i. The scratch memory is one
/// block.
Result<void> scan(Exchange& exchange, std::span<std::byte> values, std::size_t element, Combine combine,
                  const Tuning& tuning = {});
/// Rank i gets the combined values of the ranks 0 to i - 1. The values of rank 0 do not change. The steps
/// are those of scan(). The scratch memory is two blocks.
Result<void> exclusive_scan(Exchange& exchange, std::span<std::byte> values, std::size_t element,
                            Combine combine, const Tuning& tuning = {});

// -- Agreement --

/// All ranks get the largest of the values that they have given.
Result<std::uint64_t> agree_on_maximum(Exchange& exchange, std::uint64_t value);

/// Returns the ranks that have given the same color as this rank, ordered by (key, rank). The list is empty
/// if this rank has given no color. The scratch memory is 12 bytes for each rank. The list itself may throw
/// std::bad_alloc, after all messages have been exchanged.
Result<std::vector<int>> split_members(Exchange& exchange, std::optional<int> color, int key);

}  // namespace rdmc::replica::collectives

// The checks of the arguments of collective operations, and small functions that many operations need. They
// keep no state.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include <rdmc/replica.hpp>

#include "dataplane/base/error.hpp"
#include "lib/replica/exchange.hpp"

namespace rdmc::replica::collectives {

inline Result<void> check_root(const Exchange& exchange, int root) {
  if (root >= 0 && root < exchange.size()) return {};
  return fail(Errc::invalid_argument, "the root is not a rank of the communicator");
}

/// Checks that `all` bytes are one part of `mine` bytes for each rank.
inline Result<void> check_equal_parts(const Exchange& exchange, std::size_t all, std::size_t mine) {
  const auto size = static_cast<std::size_t>(exchange.size());
  if (all % size == 0 && all / size == mine) return {};
  return fail(Errc::invalid_argument, "the buffer must have one part for each rank, of the length of a part");
}

/// Checks that the lengths are one for each rank, and that their sum is `all`.
inline Result<void> check_lengths(const Exchange& exchange, std::span<const std::size_t> bytes,
                                  std::size_t all) {
  if (bytes.size() != static_cast<std::size_t>(exchange.size()))
    return fail(Errc::invalid_argument, "there must be one length for each rank");
  for (const std::size_t length : bytes) {
    if (length > all) return fail(Errc::invalid_argument, "the parts are longer than the buffer");
    all -= length;
  }
  if (all != 0) return fail(Errc::invalid_argument, "the parts are shorter than the buffer");
  return {};
}

inline Result<void> check_own_length(std::size_t length, std::size_t mine) {
  if (length == mine) return {};
  return fail(Errc::invalid_argument, "the own part has another length than the list of lengths says");
}

inline Result<void> check_elements(std::size_t bytes, std::size_t element, Combine combine) {
  if (combine == nullptr)
    return fail(Errc::invalid_argument, "there is no such operation for elements of this type");
  if (element == 0 || bytes % element != 0)
    return fail(Errc::invalid_argument, "the values are not a whole number of elements");
  return {};
}

/// Copies the own part, unless source and destination are the same memory.
inline void copy_part(std::span<std::byte> to, std::span<const std::byte> from) {
  if (!from.empty() && to.data() != from.data()) std::memmove(to.data(), from.data(), from.size());
}

/// Returns the rank that is `distance` above `rank`, modulo the number of ranks. 0 <= distance < size.
inline int rank_above(const Exchange& exchange, int rank, int distance) {
  return distance < exchange.size() - rank ? rank + distance : distance - (exchange.size() - rank);
}
inline int rank_below(const Exchange& exchange, int rank, int distance) {
  return distance <= rank ? rank - distance : rank + (exchange.size() - distance);
}

}  // namespace rdmc::replica::collectives

// Scatter claims. A claim permits a connection to have packets scattered into certain memory before their
// headers are known. Such packets may belong to other memory. So only memory in which no byte is valid may be
// claimed, and a claim must end as soon as a byte becomes valid. Connections share memory. Therefore a claim
// also ends in three other cases: another connection claims a byte of the memory, or it places a payload
// there, or the registration of a byte of the memory starts or ends. The connection that made the claim is
// not notified of these events. Therefore this class keeps the claims of all connections.
//
// A RegionTable owns the claims, and only its thread uses them. This class does no I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

namespace rdmc::roce {

class ScatterClaims {
 public:
  /// The number of a claim. No two claims have the same number. 0 means no claim.
  using Id = std::uint64_t;

  /// Claims `memory`, which must not be empty, and ends all other claims that share a byte with it.
  Id claim(std::span<std::byte> memory);
  /// True if the claim `id` on `memory` has not ended.
  bool holds(Id id, std::span<const std::byte> memory) const;
  void withdraw(Id id, std::span<const std::byte> memory);
  /// Ends all claims that share a byte with `memory`, except the claim `spared`.
  void end_within(std::span<const std::byte> memory, Id spared = 0);

  std::size_t size() const { return claims_.size(); }

 private:
  struct Claim {
    const std::byte* end;
    Id id;
  };
  // Keyed by the address of the first byte. No two claims share a byte.
  using Claims = std::map<const std::byte*, Claim, std::less<>>;

  Claims::iterator erase(Claims::iterator one);

  Claims claims_;
  // The nodes of ended claims, kept so that later claims allocate no memory.
  std::vector<Claims::node_type> spare_;
  Id last_ = 0;
};

}  // namespace rdmc::roce

// Which connection may have packets scattered into which memory before it knows what they are. Such packets
// may turn out to belong elsewhere, so only memory in which no byte is valid may be claimed, and a claim must
// end as soon as that changes. Connections share memory: a claim ends when another connection claims a byte
// of its memory or places something there, and when the registration of a byte of it begins or ends. It
// exists because the connection that made the claim hears of none of these.
//
// Owned by a RegionTable, and used by its thread. Pure.
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
  /// Names a claim; no two claims have the same. 0: none.
  using Id = std::uint64_t;

  /// Claims `memory`, which is not empty, and ends all other claims that share a byte with it.
  Id claim(std::span<std::byte> memory);
  /// Whether the claim `id` of `memory` has not ended.
  bool holds(Id id, std::span<const std::byte> memory) const;
  void withdraw(Id id, std::span<const std::byte> memory);
  /// Ends all claims that share a byte with `memory`, except `spared`.
  void end_within(std::span<const std::byte> memory, Id spared = 0);

  std::size_t size() const { return claims_.size(); }

 private:
  struct Claim {
    const std::byte* end;
    Id id;
  };
  // By the first byte. No two share a byte.
  using Claims = std::map<const std::byte*, Claim, std::less<>>;

  Claims::iterator erase(Claims::iterator one);

  Claims claims_;
  std::vector<Claims::node_type> spare_;  // of claims that ended, so that later ones allocate nothing
  Id last_ = 0;
};

}  // namespace rdmc::roce

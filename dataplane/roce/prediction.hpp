// Predicts the memory of the next X_WRITE packets, so that a driver can have their payload scattered there at
// once. First comes the rest of the message that the highest PSN belongs to. Then come the writes that the
// application expects. Usually a wrong prediction only costs a copy. But it would destroy data if its memory
// held valid bytes, or if peers were no longer permitted to write it. So all predicted memory is claimed in
// the region table (ScatterClaims), and it is predicted only until the claim ends. Every event elsewhere that
// makes the memory unsuitable ends the claim.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/roce/constants.hpp"
#include "dataplane/roce/fixed_ring.hpp"
#include "dataplane/roce/headers.hpp"
#include "dataplane/roce/region_table.hpp"

namespace rdmc::roce {

class Prediction {
 public:
  /// `regions` must outlive this object. `holder` is the key holder of the connection whose packets are
  /// predicted.
  Prediction(RegionTable& regions, std::uint32_t path_mtu, KeyHolder holder = KeyHolder::anyone);
  ~Prediction() { forget(); }
  Prediction(const Prediction&) = delete;
  Prediction& operator=(const Prediction&) = delete;

  /// Adds a hint. It is not used if the current message has begun to fill `where`, or if kExpectedWrites
  /// hints are waiting. Precondition: `where` is not empty, and the peer may write all of it.
  void expect(std::span<std::byte> where);
  /// Called when valid bytes are in `where`. Ends all claims on this memory except the claim of the current
  /// message.
  void forbid(std::span<const std::byte> where) { claims_.end_within(where, message_.claim); }
  /// Withdraws all claims. Nothing more is predicted.
  void forget();

  /// Called when a new X_WRITE packet of `bytes` payload bytes was accepted for `destination`. `highest` is
  /// true if no higher PSN has arrived.
  void on_arrival(const XWrite& header, std::uint32_t bytes, std::byte* destination, bool highest);
  /// Called when the highest PSN belongs to a SEND, a READ or an atomic.
  void on_send() { end_message(); }

  /// Fills `out` with one entry per packet, after `skip_packets` packets, and returns the number of entries.
  /// The last packet of a message may be shorter than path_mtu. In that case it is the last entry, because no
  /// train continues after a shorter packet. If `for_others` is true, packets of other peers may be scattered
  /// there, too. In that case the entries end before memory that any peer may read.
  std::size_t predict(std::span<std::span<std::byte>> out, std::size_t skip_packets, bool for_others = false);

 private:
  struct Claimed {
    std::span<std::byte> memory;
    ScatterClaims::Id claim = 0;
    // True if any peer may read the memory. The value is looked up when it is first needed. It stays correct,
    // because a claim ends when a region of its memory is added or removed.
    std::optional<bool> is_readable = {};
  };
  bool holds(const Claimed& one) const { return claims_.holds(one.claim, one.memory); }
  void withdraw(const Claimed& one) { claims_.withdraw(one.claim, one.memory); }
  void use_up_hints(const std::byte* address);
  void begin_message(std::span<std::byte> memory);
  void end_message();
  /// Appends one entry for each packet that `memory` takes. Returns false if no more entries may follow.
  bool append(std::span<std::byte> memory, std::span<std::span<std::byte>> out, std::size_t& count,
              std::size_t& skip) const;
  bool is_readable(Claimed& one);

  RegionTable& regions_;
  ScatterClaims& claims_;
  const std::uint32_t path_mtu_;
  const KeyHolder holder_;
  // The current message. Its claim begins with the first byte of the message that was seen.
  Claimed message_;
  RemoteKey key_{};
  std::uint64_t next_address_ = 0;  // The remote address after the last byte of the highest PSN's packet.
  std::uint32_t rest_ = 0;          // The number of bytes of the message from next_address_ on.
  FixedRing<Claimed> expected_;
};

}  // namespace rdmc::roce

// Where the next X_WRITE packets will land, so that a driver can have them scattered there straight away: the
// rest of the message that the highest PSN belongs to, then the writes that the application expects. A wrong
// guess costs a copy. A guess into memory that holds valid bytes, or that peers may not write any more, would
// destroy something. So all memory that is guessed is claimed in the region table (ScatterClaims), and it is
// given out only while the claim holds: whatever happens to that memory elsewhere ends the claim.
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
  /// `regions` outlives it. `holder`: of the connection whose packets they are.
  Prediction(RegionTable& regions, std::uint32_t path_mtu, KeyHolder holder = KeyHolder::anyone);
  ~Prediction() { forget(); }
  Prediction(const Prediction&) = delete;
  Prediction& operator=(const Prediction&) = delete;

  /// A hint; not used if peers may not write `where`, or if the message under way has begun to fill it.
  void expect(std::span<std::byte> where);
  /// Valid bytes lie in `where`: nobody may expect anything there.
  void forbid(std::span<const std::byte> where) { claims_.end_within(where, message_.claim); }
  /// Nothing more is expected.
  void forget();

  /// A new X_WRITE packet of `bytes` was accepted for `destination`; `highest`: no higher PSN has been.
  void on_arrival(const XWrite& header, std::uint32_t bytes, std::byte* destination, bool highest);
  /// The highest PSN belongs to a SEND.
  void on_send() { end_message(); }

  /// One entry per packet; a message's last may be shorter than path_mtu, and the answer ends there, since no
  /// train continues behind a shorter packet. `for_others`: packets of other peers may be scattered there,
  /// too, so the answer ends before memory that any peer may read.
  std::size_t predict(std::span<std::span<std::byte>> out, std::size_t skip_packets, bool for_others = false);

 private:
  struct Claimed {
    std::span<std::byte> memory;
    ScatterClaims::Id claim = 0;
    std::optional<bool> is_readable =
        {};  // once somebody has asked; a region that comes or goes ends the claim
  };
  bool holds(const Claimed& one) const { return claims_.holds(one.claim, one.memory); }
  void withdraw(const Claimed& one) { claims_.withdraw(one.claim, one.memory); }
  void use_up_hints(const std::byte* address);
  void begin_message(std::span<std::byte> memory);
  void end_message();
  /// Appends the packets of `memory`; false when the answer ends.
  bool append(std::span<std::byte> memory, std::span<std::span<std::byte>> out, std::size_t& count,
              std::size_t& skip) const;
  bool is_readable(Claimed& one);

  RegionTable& regions_;
  ScatterClaims& claims_;
  const std::uint32_t path_mtu_;
  const KeyHolder holder_;
  // The message under way. Its claim begins with the first byte that was seen of it.
  Claimed message_;
  RemoteKey key_{};
  std::uint64_t next_address_ = 0;  // behind the highest PSN's last byte
  std::uint32_t rest_ = 0;          // bytes of the message from there
  FixedRing<Claimed> expected_;
};

}  // namespace rdmc::roce

// Where the next X_WRITE packets will land, so that a driver can have them scattered there straight away: the
// rest of the message that the highest PSN belongs to, then the writes that the application expects. A wrong
// guess costs a copy; a guess into memory that holds valid bytes, or that was revoked, would destroy
// something, so every guess is resolved against the region table again before it is given out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/roce/constants.hpp"
#include "dataplane/roce/fixed_ring.hpp"
#include "dataplane/roce/headers.hpp"
#include "dataplane/roce/region_table.hpp"

namespace rdmc::roce {

class Prediction {
 public:
  Prediction(const RegionTable& regions, std::uint32_t path_mtu);

  /// A hint; not used if no registered region holds `where`, or if it is the memory of the message under way.
  void expect(std::span<std::byte> where);
  void forget() { expected_.clear(); }

  /// A new X_WRITE packet of `bytes` was accepted for `destination`; `highest`: no higher PSN has been.
  void on_arrival(const XWrite& header, std::uint32_t bytes, const std::byte* destination, bool highest);
  /// The highest PSN belongs to a SEND.
  void on_send() { rest_ = 0; }

  /// One entry per packet; a message's last may be shorter than path_mtu, and the answer ends there, since no
  /// train continues behind a shorter packet.
  std::size_t predict(std::span<std::span<std::byte>> out, std::size_t skip_packets) const;

 private:
  struct Expected {
    RemoteKey key{};
    std::uint64_t address = 0;
    std::span<std::byte> memory;
  };
  bool is_registered(const Expected& hint) const;
  void drop_revoked();
  /// Appends the packets of [memory, memory + bytes); false when the answer ends.
  bool append(std::byte* memory, std::size_t bytes, std::span<std::span<std::byte>> out, std::size_t& count,
              std::size_t& skip) const;

  const RegionTable& regions_;
  const std::uint32_t path_mtu_;
  // The message under way, from the byte behind the highest PSN's.
  RemoteKey key_{};
  std::uint64_t next_address_ = 0;
  std::uint32_t rest_ = 0;
  FixedRing<Expected> expected_;
};

}  // namespace rdmc::roce

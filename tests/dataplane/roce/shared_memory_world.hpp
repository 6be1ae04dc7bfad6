// Several connections that share the regions of one memory, with random events. A model knows for each byte
// which connection expects it. Only this connection may have packets scattered over the byte. A connection
// starts to expect a byte in two cases: it gets a hint that covers the byte, or it receives the first packet
// of a message that covers the byte. It stops when any packet is placed on the byte, when another hint covers
// the byte, or when the registration of the byte changes.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "dataplane/base/random.hpp"
#include "dataplane/roce/connection.hpp"

namespace rdmc::roce::testing {

class SharedMemoryWorld {
 public:
  static constexpr std::size_t kConnections = 3, kBytes = 4096, kUnit = 32;
  static constexpr std::uint32_t kMtu = 256;

  explicit SharedMemoryWorld(std::uint64_t seed) : random_(seed), memory_(kBytes), expects_(kBytes, kNobody) {
    for (std::size_t i = 0; i < kConnections; ++i) renew(i);
  }

  /// Executes one random event.
  void step() {
    const std::size_t c = random_.below(kConnections);
    switch (random_.below(16)) {
      case 0: add_region(); break;
      case 1: remove_region(); break;
      case 2:
        if (random_.below(4) == 0) renew(c);
        break;
      case 3: write_on_another_connection(); break;
      case 4:
      case 5:
      case 6:
      case 7: hint(c); break;
      case 8:
      case 9:
      case 10: begin_message(c); break;
      default: deliver(c); break;
    }
  }

  /// Returns true if each connection predicts only bytes that it expects and that a peer may write. Then no
  /// byte is predicted by two connections.
  bool every_guess_is_harmless() {
    for (std::size_t c = 0; c < kConnections; ++c) {
      std::array<std::span<std::byte>, 32> guesses;
      const std::size_t count = connections_[c].connection->predict(guesses, 0);
      for (const auto guess : std::span(guesses).first(count)) {
        const Range range{offset_of(guess.data()), offset_of(guess.data()) + guess.size()};
        if (!is_writable(range)) return false;
        for (std::size_t at = range.begin; at < range.end; ++at)
          if (expects_[at] != c) return false;
        ++guessed;
      }
    }
    return true;
  }

  std::size_t claims() { return regions_.claims().size(); }
  void end_connections() {
    for (Member& member : connections_) member.connection.reset();
  }

  std::size_t guessed = 0;  ///< The number of packets that were predicted.

 private:
  static constexpr std::size_t kNobody = SIZE_MAX;

  struct Range {
    std::size_t begin = 0, end = 0;
    bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
  };
  struct Region {
    RemoteKey key{};
    Range range;
    RemoteAccess access{};
  };
  struct Pending {
    int psn = 0;
    RemoteKey key{};
    Range message;  ///< The bytes from this packet's first byte to the end of the message.
    std::size_t bytes = 0;
  };
  struct Member {
    std::unique_ptr<Connection> connection;
    std::deque<Pending> pending;
    int next_psn = 0, highest = -1;
    /// The message with the highest PSN, from its first byte that has arrived. nullopt after another event
    /// has touched the message.
    std::optional<Range> message;
    RemoteKey key{};
    std::uint64_t next = 0;  ///< The remote address after the last byte of the packet with the highest PSN.
    std::size_t rest = 0;    ///< The number of bytes of the message from `next` on.
  };

  std::size_t offset_of(const std::byte* at) const { return static_cast<std::size_t>(at - memory_.data()); }
  std::span<std::byte> bytes(const Range& range) {
    return std::span(memory_).subspan(range.begin, range.end - range.begin);
  }
  Range random_range(std::size_t most) {
    const std::size_t size = random_.between(1, most / kUnit) * kUnit;
    const std::size_t begin = random_.below((kBytes - size) / kUnit + 1) * kUnit;
    return {begin, begin + size};
  }
  bool is_writable(const Range& range) const {
    return std::ranges::any_of(live_, [&](const Region& one) {
      return permits(one.access, RemoteAccess::write) && one.range.begin <= range.begin &&
             range.end <= one.range.end;
    });
  }

  /// From now on, no connection expects a byte in `range`. The exception is the current message of the
  /// connection `spared`.
  void touch(const Range& range, std::size_t spared = kNobody) {
    std::vector<std::size_t> kept;
    if (spared != kNobody && connections_[spared].message) {
      const Range& own = *connections_[spared].message;
      for (std::size_t at = std::max(own.begin, range.begin); at < std::min(own.end, range.end); ++at)
        if (expects_[at] == spared) kept.push_back(at);
    }
    std::fill(expects_.begin() + static_cast<std::ptrdiff_t>(range.begin),
              expects_.begin() + static_cast<std::ptrdiff_t>(range.end), kNobody);
    for (const std::size_t at : kept) expects_[at] = spared;
    for (std::size_t c = 0; c < kConnections; ++c)
      if (c != spared && connections_[c].message && connections_[c].message->overlaps(range)) end_message(c);
  }
  void end_message(std::size_t c) {
    if (!connections_[c].message) return;
    const Range own = *std::exchange(connections_[c].message, std::nullopt);
    for (std::size_t at = own.begin; at < own.end; ++at)
      if (expects_[at] == c) expects_[at] = kNobody;
  }

  void renew(std::size_t c) {
    connections_[c] = {};
    for (std::size_t& one : expects_)
      if (one == c) one = kNobody;
    connections_[c].connection =
        std::make_unique<Connection>(ConnectionConfig{.path_mtu = kMtu, .selective_repeat = true}, regions_);
  }
  /// Adds a region. The keys may have been used before, as can happen with random keys.
  void add_region() {
    static constexpr std::uint32_t kKeys = 6;
    const Region region{.key = RemoteKey{static_cast<std::uint32_t>(random_.below(kKeys))},
                        .range = random_range(kBytes),
                        .access = random_.below(4) == 0 ? RemoteAccess::read
                                                        : RemoteAccess::write | RemoteAccess::invalidate};
    if (!regions_.add(region.key, 0, bytes(region.range), region.access)) return;
    live_.push_back(region);
    touch(region.range);
  }
  void remove_region() {
    if (live_.empty()) return;
    const std::size_t which = random_.below(live_.size());
    Region& region = live_[which];
    touch(region.range);
    if (random_.below(2) == 0 && regions_.invalidate(region.key)) {
      region.access = RemoteAccess::none;
      return;
    }
    regions_.revoke(region.key);
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(which));
  }
  void hint(std::size_t c) {
    if (live_.empty()) return;
    const Region& region = live_[random_.below(live_.size())];
    const std::size_t region_bytes = region.range.end - region.range.begin;
    Range where = random_range(std::min<std::size_t>(1024, region_bytes));
    // Only a few hints go beyond their region.
    if (random_.below(8) != 0) {
      const std::size_t size = where.end - where.begin;
      where.begin = std::clamp(where.begin, region.range.begin, region.range.end - size);
      where.end = where.begin + size;
    }
    Member& member = connections_[c];
    member.connection->expect_write(region.key, where.begin - region.range.begin,
                                    static_cast<std::uint32_t>(where.end - where.begin));
    if (!permits(region.access, RemoteAccess::write) || where.begin < region.range.begin ||
        where.end > region.range.end || (member.message && member.message->overlaps(where)))
      return;
    touch(where);
    std::fill(expects_.begin() + static_cast<std::ptrdiff_t>(where.begin),
              expects_.begin() + static_cast<std::ptrdiff_t>(where.end), c);
  }
  void begin_message(std::size_t c) {
    std::vector<Region> open;
    std::ranges::copy_if(live_, std::back_inserter(open),
                         [](const Region& one) { return permits(one.access, RemoteAccess::write); });
    if (open.empty()) return;
    const Region& region = open[random_.below(open.size())];
    // In half of the cases, the message is for memory where the connection expects a message.
    Range range = random_range(region.range.end - region.range.begin);
    const auto hinted = std::ranges::find(expects_, c);
    if (random_.below(2) == 0 && hinted != expects_.end())
      range = {static_cast<std::size_t>(hinted - expects_.begin()), kBytes};
    range.begin = std::max(range.begin, region.range.begin);
    range.end = std::min({range.end, region.range.end, range.begin + 1024});
    Member& member = connections_[c];
    for (std::size_t at = range.begin; at < range.end; at += kMtu)
      member.pending.push_back(
          {member.next_psn++, region.key, {at, range.end}, std::min<std::size_t>(kMtu, range.end - at)});
  }
  /// Delivers one of the next packets. So a packet may overtake others, or arrive late as if it had been lost
  /// and sent again.
  void deliver(std::size_t c) {
    Member& member = connections_[c];
    if (member.pending.empty()) return;
    const std::size_t which =
        random_.below(2) == 0 ? 0 : random_.below(std::min<std::size_t>(member.pending.size(), 6));
    const Pending one = member.pending[which];
    member.pending.erase(member.pending.begin() + static_cast<std::ptrdiff_t>(which));
    const auto region = std::ranges::find(live_, one.key, &Region::key);
    const std::uint64_t address = region == live_.end() ? 0 : one.message.begin - region->range.begin;
    const auto remaining = static_cast<std::uint32_t>(one.message.end - one.message.begin);
    Packet packet{.bth = {.opcode = remaining == one.bytes ? Opcode::x_write_last : Opcode::x_write,
                          .psn = Psn() + one.psn},
                  .x_write = {.address = address, .key = one.key, .remaining = remaining},
                  .payload = std::span(payload_).first(one.bytes)};
    const Arrival arrival = member.connection->on_packet(packet, Time{}, false);
    if (member.connection->failed()) return renew(c);  // The region of the packet was removed.
    if (arrival.destination != nullptr)
      on_placed(c, one, offset_of(arrival.destination), address, remaining);
    else if (arrival.verdict != Arrival::Verdict::accepted)
      member.pending.push_front(one);  // The packet was dropped. Its sender sends it again.
  }
  void on_placed(std::size_t c, const Pending& one, std::size_t at, std::uint64_t address,
                 std::size_t remaining) {
    Member& member = connections_[c];
    const bool fits = at + remaining <= std::ranges::find(live_, one.key, &Region::key)->range.end;
    const Range message{at, at + (fits ? remaining : one.bytes)};
    touch(message, c);
    if (one.psn <= member.highest) return;
    const bool continues = member.rest == remaining && member.next == address && member.key == one.key;
    member.highest = one.psn;
    member.key = one.key;
    member.next = address + one.bytes;
    member.rest = remaining - one.bytes;
    if (!continues) {
      end_message(c);
      member.message = message;
      std::fill(expects_.begin() + static_cast<std::ptrdiff_t>(message.begin),
                expects_.begin() + static_cast<std::ptrdiff_t>(message.end), c);
    }
    if (member.message)
      std::fill(expects_.begin() + static_cast<std::ptrdiff_t>(at),
                expects_.begin() + static_cast<std::ptrdiff_t>(at + one.bytes), kNobody);
    if (member.rest == 0) end_message(c);
  }
  /// Delivers a WRITE of one packet in standard mode, from a foreign endpoint.
  void write_on_another_connection() {
    if (live_.empty()) return;
    const Region& region = live_[random_.below(live_.size())];
    const std::size_t size = std::min<std::size_t>(kUnit, region.range.end - region.range.begin);
    Connection foreign({.path_mtu = kMtu}, regions_);
    const Packet packet{.bth = {.opcode = Opcode::write_only},
                        .reth = {.address = 0, .key = region.key, .length = static_cast<std::uint32_t>(size)},
                        .payload = std::span(payload_).first(size)};
    const Arrival arrival = foreign.on_packet(packet, Time{}, false);
    if (arrival.destination == nullptr) return;
    const std::size_t at = offset_of(arrival.destination);
    touch({at, at + size});
  }

  Random random_;
  std::vector<std::byte> memory_;
  std::vector<std::size_t> expects_;  ///< The connection that expects the byte, for each byte.
  std::array<std::byte, kMtu> payload_{};
  RegionTable regions_;
  std::vector<Region> live_;
  std::array<Member, kConnections> connections_;
};

}  // namespace rdmc::roce::testing
